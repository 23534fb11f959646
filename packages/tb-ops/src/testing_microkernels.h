// The microkernels by themselves, for tests.
#pragma once
#include <nanobind/nanobind.h>

namespace tb::ops {

void bind_microkernels(nanobind::module_ &testing);

} // namespace tb::ops
