// The function table that tb-generator exports: exceptions become status codes here and nowhere else.
#pragma once
#include "generator.h"

namespace tb::generator {

// tb-device's table, all zero until it is connected. Written once, under Python's lock, before the first use.
extern tb_device_table device_table;

// Devices that default_generator may name: the driver's once one is open; asking never opens one.
int32_t known_device_count();

extern const tb_generator_table table;

} // namespace tb::generator
