// Makes the table that a driver's users get.
#pragma once

#include "registry/registry.h"

namespace tb::device {

// Fills driver.table from driver.offered, emulation and refusals, and puts the host's interception around it.
void complete_table(Driver &driver);

// The last call of a driver. TB_FAILED_PRECONDITION and no change while objects of the driver are alive.
tb_status close_driver(Driver &driver);

} // namespace tb::device
