// The built-in drivers as data, for the host, the contract kit and Python.
#pragma once

#include <string_view>

#include "tb/driver.h"

namespace tb::drivers {

// The columns of builtin.inc.
struct BuiltinDriver {
  std::string_view name;
  int search_order;
  bool vendor_library;
  std::string_view contract_options;
};

inline constexpr BuiltinDriver builtin_drivers[] = {
#define TB_BUILTIN(name, search_order, vendor_library, contract_options)                                               \
  {#name, search_order, vendor_library, contract_options},
#include "drivers/builtin.inc"
#undef TB_BUILTIN
};

// NULL if there is no built-in driver of this name.
constexpr const BuiltinDriver *find_builtin(std::string_view name) {
  for (const BuiltinDriver &driver : builtin_drivers)
    if (driver.name == name) return &driver;
  return nullptr;
}

// The entry of a built-in driver, NULL for an unknown name. Defined where the drivers are linked: in tb_device._core
// and in the contract kit's program (builtin.cpp).
tb_driver_open_fn builtin_entry(std::string_view name);

} // namespace tb::drivers
