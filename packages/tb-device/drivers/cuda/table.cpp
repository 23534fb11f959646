// Opening the CUDA driver and the table it gives: the groups that this libcuda and these devices allow.
#include <string_view>

#include "drivers/common/open_prologue.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

struct Offer {
  uint64_t group;
  Need need;
};

constexpr Offer offers[] = {
    {TB_GROUP_ASYNC, Need::ASYNC},   {TB_GROUP_PIN, Need::PIN},           {TB_GROUP_PTR, Need::PTR},
    {TB_GROUP_SOA, Need::SOA},       {TB_GROUP_COPY2D, Need::COPY2D},     {TB_GROUP_VMM, Need::VMM},
    {TB_GROUP_PEER, Need::PEER},     {TB_GROUP_HOSTCALL, Need::HOSTCALL}, {TB_GROUP_NATIVE, Need::NATIVE},
    {TB_GROUP_TIMING, Need::TIMING}, {TB_GROUP_MODULE, Need::MODULE},     {TB_GROUP_IPC, Need::IPC},
};
constexpr uint64_t need_async =
    TB_GROUP_SOA | TB_GROUP_HOSTCALL | TB_GROUP_NATIVE | TB_GROUP_TIMING | TB_GROUP_MODULE | TB_GROUP_IPC;

// All devices say so.
bool all_have(const Driver &driver, int attribute) {
  for (const auto &device : driver.devices) {
    int value = 0;
    const CUresult result = driver.api.cuDeviceGetAttribute(&value, attribute, device->native);
    if (result != CUDA_SUCCESS)
      driver.host->log(2, ("cuDeviceGetAttribute gave " + std::to_string(result) + ": a group is not offered").c_str());
    if (result != CUDA_SUCCESS || !value) return false;
  }
  return true;
}

uint64_t offered(const Driver &driver) {
  uint64_t groups = TB_GROUP_CORE;
  for (const Offer &offer : offers)
    if (driver.api.has(offer.need)) groups |= offer.group;
  if (!(groups & TB_GROUP_ASYNC)) groups &= ~need_async;
  if (!all_have(driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) groups &= ~uint64_t(TB_GROUP_VMM);
  if (!all_have(driver, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)) groups &= ~uint64_t(TB_GROUP_SOA);
  return groups;
}

// CLOSURE is for devices whose kernels run on the host.
constexpr bool is_defined(std::string_view group, std::string_view) { return group != "CLOSURE"; }

tb_driver_api make_table(const Driver &driver) {
  tb_driver_api table = start_table(driver.groups);
#include "drivers/common/fill_table.inc"
  // Optional functions, which have no group of their own.
  if (!driver.api.cuMemGetInfo) table.device_memory_info = nullptr;
  if (!driver.api.cuDevicePrimaryCtxReset) table.device_reset = nullptr;
  if (!driver.api.cuMemHostRegister || !driver.api.cuMemHostUnregister)
    table.mem_register_host = nullptr, table.mem_unregister_host = nullptr;
  if (!driver.api.cuModuleGetGlobal) table.module_global = nullptr;
  return table;
}

} // namespace

extern "C" tb_status tb_cuda_driver_open_v1(const tb_host *host, tb_driver_api *out, tb_driver **self) {
  if (const tb_status status = check_open("CUDA", host, out, self)) return status;
  return guarded(host, [&]() -> tb_status {
    Api api;
    if (const tb_status status = api.open(host)) return status;
    auto driver = std::make_unique<Driver>(host, std::move(api));
    if (const tb_status status = driver->find_devices()) return status;
    driver->groups = offered(*driver);
    driver->has_graphs = driver->has_async() && driver->api.has(Need::GRAPH);
    if (const tb_status status = hand_out(host, make_table(*driver), out)) return status;
    *self = driver.release()->handle();
    return TB_OK;
  });
}

} // namespace tb::drivers::cuda
