// capture.h -- captures of streams: the driver's extension tb.graph, and the parts that other components add to it.
//
// A capture takes the work that a stream is given, instead of running it. Components whose state a replay needs
// register a tb_capture_part; begin, end and launch of each capture call it. Functions are thread-safe and set an error
// text when they fail; functions on one capture must not run at once.
#pragma once

#include "host.h"

namespace tb::stream {

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

// Whether the stream takes part in a capture. Does not call the driver while no capture is in progress.
tb_status capture_is_active(tb_stream *stream, bool *out);

} // namespace tb::stream
