// The parts of the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tb::device {

void bind_driver(nanobind::module_ &module);  // Driver, load_library, open_builtin, builtin_entry
void bind_layers(nanobind::module_ &module);  // layers used at run time: fault, leak
void bind_process(nanobind::module_ &module); // default driver, current device, facts about the ABI

} // namespace tb::device
