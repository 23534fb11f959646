// graph_object.h -- tb_stream.Graph: a capture and its launches.
#pragma once

#include <nanobind/nanobind.h>

namespace tb::stream {

void bind_graph(nanobind::module_ &m);

} // namespace tb::stream
