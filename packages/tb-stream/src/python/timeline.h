// timeline.h -- the functions behind tb_stream.trace().
#pragma once

#include <nanobind/nanobind.h>

namespace tb::stream {

void bind_timeline(nanobind::module_ &m);

} // namespace tb::stream
