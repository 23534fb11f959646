// Hooks for tests and benchmarks, which no product code calls.
#pragma once
#include <nanobind/nanobind.h>

namespace tb::ops {

// Binds them to the module `_core._testing`, which is no attribute of `_core`: tb_ops._testing has their Python side.
void bind_testing(nanobind::module_ &core);

} // namespace tb::ops
