// buffer.h -- binds tb_allocator.Buffer, empty() and pinned().
#pragma once

#include <nanobind/nanobind.h>

namespace tb::allocator {

void bind_buffer(nanobind::module_ &m);

} // namespace tb::allocator
