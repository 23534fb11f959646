// The function table that tb-generator exports. Exceptions become status codes in table.cpp and nowhere else.
#pragma once
#include "state/generator.h"

namespace tb::generator {

// tb-device's table, all zero until it is connected. It is written once, with the GIL held, before the first use.
extern tb_device_table device_table;

// The number of devices that default_generator() accepts: the driver's once one is open. Never opens a driver.
int32_t known_device_count();

extern const tb_generator_table table;

} // namespace tb::generator
