// What every built-in tb_driver_open_v1 begins and ends with: the checks of its arguments, and the table it hands out.
#pragma once

#include "tb/driver.h"

namespace tb::drivers {

// TB_OK, or what makes opening impossible for any driver. `driver` is its name in the texts: "CPU". A host that takes
// no texts gets TB_INVALID_ARGUMENT alone.
tb_status check_open(const char *driver, const tb_host *host, const tb_driver_api *api, tb_driver **self);

// A table with its version, its groups and the id of this build; its functions are still NULL.
tb_driver_api start_table(uint64_t groups);

// Copies a finished table as far as the host's struct_size reaches.
tb_status hand_out(const tb_host *host, const tb_driver_api &table, tb_driver_api *api);

} // namespace tb::drivers
