// The classes of captured steps in tb_compile._core.
#pragma once
#include <nanobind/nanobind.h>

namespace tb::compile {

void define_step(nanobind::module_ &module);

} // namespace tb::compile
