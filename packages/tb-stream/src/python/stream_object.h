// stream_object.h -- tb_stream.Stream, and the functions about current streams.
#pragma once

#include <nanobind/nanobind.h>

namespace tb::stream {

void bind_stream(nanobind::module_ &m);

} // namespace tb::stream
