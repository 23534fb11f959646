// capture.h -- captured work of streams: the driver's extension tb.graph, and the parts that other components have in it.
#pragma once

#include "host.h"

namespace tb {

extern int32_t capturing; // captures in progress; written atomically

tb_status add_capture_part(const tb_capture_part *part);
tb_status capture_part(tb_stream *stream, const tb_capture_part *part, void **out_part);
uint64_t new_capture_pool();
tb_status capture_begin(int32_t device, tb_stream *stream, uint64_t pool, tb_capture **out);
tb_status capture_end(tb_capture *capture);
tb_status capture_instantiate(tb_capture *capture);
tb_status capture_launch(tb_capture *capture, tb_stream *stream);
tb_status capture_update(tb_capture *capture, tb_capture *other);
uint64_t capture_pool(const tb_capture *capture);
tb_status capture_node_count(const tb_capture *capture, uint64_t *out);
void capture_destroy(tb_capture *capture);

// Whether the stream takes part in a capture; false where the driver has none.
tb_status capture_is_active(tb_stream *stream, bool *out);

} // namespace tb
