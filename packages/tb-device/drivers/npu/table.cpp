// Opening the NPU driver, and the table that it gives: what the library at hand can do.
#include "drivers/npu/npu_driver.h"

#include <string_view>

#include "drivers/npu/driver.h"

#ifndef TB_PACKAGE_VERSION
#define TB_PACKAGE_VERSION "unversioned"
#endif

namespace tb::npu {
namespace {

uint64_t groups_of(const Library &library) {
  uint64_t groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_PTR | TB_GROUP_NATIVE | TB_GROUP_TIMING;
  if (library.aclrtLaunchHostFunc) groups |= TB_GROUP_HOSTCALL;
  if (library.aclrtMemcpy2dAsync) groups |= TB_GROUP_COPY2D;
  if (library.has_virtual_memory()) groups |= TB_GROUP_VMM;
  return groups;
}

// Staging through the host serves pairs that do not reach each other, and it is offered for all or none.
bool all_reach_each_other(Runtime &runtime) {
  const Library &library = runtime.library;
  if (!library.has_peers()) return false;
  for (int32_t device = 0; device < runtime.device_count(); ++device)
    for (int32_t peer = 0; peer < runtime.device_count(); ++peer) {
      if (device == peer) continue;
      runtime.initialize();
      int32_t can = 0;
      runtime.call(library.aclrtDeviceCanAccessPeer, &can, device, peer);
      if (!can) return false;
    }
  return true;
}

bool has_slot(const Library &library, std::string_view name) {
  if (name == "device_reset" || name == "get_extension") return false;
  if (name == "device_query") return bool(library.aclrtGetDeviceInfo);
  if (name == "mem_register_host" || name == "mem_unregister_host")
    return library.aclrtHostRegister && library.aclrtHostUnregister;
  return true;
}

constexpr bool written(std::string_view group, std::string_view name) {
  return group != "SOA" && group != "MODULE" && group != "IPC" && group != "CLOSURE" && name != "device_reset" &&
         name != "get_extension";
}

tb_driver_api make_table(Runtime &runtime) {
  tb_driver_api table = {};
  table.struct_size = sizeof table;
  table.abi_major = TB_ABI_MAJOR;
  table.abi_minor = TB_ABI_MINOR;
  table.groups = groups_of(runtime.library) | (all_reach_each_other(runtime) ? uint64_t(TB_GROUP_PEER) : 0);
  table.build_id = "tb-device " TB_PACKAGE_VERSION ", " __VERSION__;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if constexpr (written(#group, #name))                                                                                \
    if (table.groups & TB_GROUP_##group && has_slot(runtime.library, #name)) table.name = slots::name;
#define TB_SLOT0(group, need, name) TB_SLOT(group, need, name, (), ())
#include "tb/driver_slots.inc"
#undef TB_SLOT0
#undef TB_SLOT
  return table;
}

} // namespace
} // namespace tb::npu

extern "C" tb_status tb_npu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  using namespace tb::npu;
  if (!host || !host->set_error) return TB_INVALID_ARGUMENT; // nowhere to put a text
  return guarded(host, [&]() -> tb_status {
    if (!api || !self) refuse(TB_INVALID_ARGUMENT, "%s is NULL", api ? "self" : "api");
    if (host->abi_major != TB_ABI_MAJOR)
      refuse(TB_ABI_MISMATCH, "the NPU driver speaks driver ABI %d.x, the host %d.%d", TB_ABI_MAJOR, host->abi_major,
             host->abi_minor);
    const auto runtime = Runtime::share(Library::open(host->option ? host->option("library") : nullptr));
    auto driver = std::make_unique<Driver>(host, runtime);
    const tb_driver_api table = make_table(*runtime);
    if (tb_driver_fill(api, &table))
      refuse(TB_ABI_MISMATCH, "the host's table of %u bytes is smaller than the ABI's prelude", api->struct_size);
    *self = driver.release()->handle();
    return TB_OK;
  });
}
