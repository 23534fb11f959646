// arena.h -- the class tb_allocator.Arena.
#pragma once

#include <nanobind/nanobind.h>

namespace tb::allocator {

void bind_arena(nanobind::module_ &m);

} // namespace tb::allocator
