// Opens a driver, checks its table, completes it.
#pragma once

#include <string>

#include "host/host.h"
#include "registry/registry.h"

namespace tb::device {

using OpenFunction = tb_status (*)(const tb_host *, tb_driver_api *, tb_driver **);

// Both return a registered, open driver with a complete table, or throw Failure with everything that is wrong in one
// text. `name` is what options are looked up under. Libraries are never unloaded, also after a failure: a driver may
// have started threads. May block; call without Python's lock.
Driver *load_library(const std::string &path, const std::string &name, const Options &options);
Driver *open_embedded(OpenFunction open, const std::string &name, const Options &options);

} // namespace tb::device
