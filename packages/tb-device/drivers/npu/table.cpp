// Opening the NPU driver, and the table that it gives: what the library at hand can do.
#include "drivers/npu/npu_driver.h"

#include <string_view>

#include "drivers/common/open_prologue.h"
#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
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

constexpr bool is_defined(std::string_view group, std::string_view name) {
  return group != "SOA" && group != "MODULE" && group != "IPC" && group != "CLOSURE" && name != "device_reset" &&
         name != "get_extension";
}

tb_driver_api make_table(Runtime &runtime) {
  const Library &library = runtime.library;
  const uint64_t peers = all_reach_each_other(runtime) ? TB_GROUP_PEER : 0;
  tb_driver_api table = start_table(groups_of(library) | peers);
#include "drivers/common/fill_table.inc"
  // Optional functions, which have no group of their own.
  if (!library.aclrtGetDeviceInfo) table.device_query = nullptr;
  if (!library.aclrtHostRegister || !library.aclrtHostUnregister)
    table.mem_register_host = nullptr, table.mem_unregister_host = nullptr;
  return table;
}

} // namespace

extern "C" tb_status tb_npu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  if (const tb_status status = check_open("NPU", host, api, self)) return status;
  return guarded(host, [&]() -> tb_status {
    const auto runtime = Runtime::share(Library::open(host->option ? host->option("library") : nullptr));
    auto driver = std::make_unique<Driver>(host, runtime);
    if (const tb_status status = hand_out(host, make_table(*runtime), api)) return status;
    *self = driver.release()->handle();
    return TB_OK;
  });
}

} // namespace tb::drivers::npu
