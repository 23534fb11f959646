// The entries of the built-in drivers.
#include "drivers/builtin.h"

#define TB_BUILTIN(name, search_order, vendor_library, contract_options)                                               \
  extern "C" tb_status tb_##name##_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);
#include "drivers/builtin.inc"
#undef TB_BUILTIN

namespace tb::drivers {

tb_driver_open_fn builtin_entry(std::string_view asked) {
#define TB_BUILTIN(name, search_order, vendor_library, contract_options)                                               \
  if (asked == #name) return tb_##name##_driver_open_v1;
#include "drivers/builtin.inc"
#undef TB_BUILTIN
  return nullptr;
}

} // namespace tb::drivers
