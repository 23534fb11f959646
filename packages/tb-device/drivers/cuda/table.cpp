// Opening the CUDA driver and the table it gives: the groups that this libcuda and these devices allow.
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/driver.h"

#ifndef TB_PACKAGE_VERSION
#define TB_PACKAGE_VERSION "unversioned"
#endif

namespace tb::cuda {
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

tb_driver_api make_table(const Driver &driver) {
  tb_driver_api table = {};
  table.struct_size = sizeof table;
  table.abi_major = TB_ABI_MAJOR;
  table.abi_minor = TB_ABI_MINOR;
  table.groups = driver.groups;
  table.build_id = "tb-device " TB_PACKAGE_VERSION ", " __VERSION__;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (driver.groups & TB_GROUP_##group) table.name = slots::name;
#define TB_SLOT0(group, need, name) TB_SLOT(group, need, name, (), ())
#include "tb/driver_slots.inc"
#undef TB_SLOT0
#undef TB_SLOT
  // Optional functions, which have no group of their own.
  if (!driver.api.cuMemGetInfo) table.device_memory_info = nullptr;
  if (!driver.api.cuDevicePrimaryCtxReset) table.device_reset = nullptr;
  if (!driver.api.cuMemHostRegister || !driver.api.cuMemHostUnregister)
    table.mem_register_host = nullptr, table.mem_unregister_host = nullptr;
  if (!driver.api.cuModuleGetGlobal) table.module_global = nullptr;
  return table;
}

} // namespace

// CLOSURE is for devices whose kernels run on the host: never in the table.
namespace slots {
tb_status closure_reserve(tb_driver *, tb_stream *, uint64_t, void **) { return TB_UNSUPPORTED; }
tb_status closure_commit(tb_driver *, tb_stream *, void *, const tb_closure *) { return TB_UNSUPPORTED; }
tb_status closure_cancel(tb_driver *, tb_stream *, void *) { return TB_UNSUPPORTED; }
} // namespace slots

} // namespace tb::cuda

extern "C" tb_status tb_cuda_driver_open_v1(const tb_host *host, tb_driver_api *out, tb_driver **self) {
  using namespace tb::cuda;
  if (!host || !host->set_error) return TB_INVALID_ARGUMENT; // nowhere to put a text
  return guarded(host, [&]() -> tb_status {
    if (!out || !self) return fail(host, TB_INVALID_ARGUMENT, "%s is NULL", out ? "self" : "api");
    if (host->abi_major != TB_ABI_MAJOR)
      return fail(host, TB_ABI_MISMATCH, "the CUDA driver speaks driver ABI %d.x, the host %d.%d", TB_ABI_MAJOR,
                  host->abi_major, host->abi_minor);
    Api api;
    if (const tb_status status = api.open(host)) return status;
    auto driver = std::make_unique<Driver>(host, std::move(api));
    if (const tb_status status = driver->find_devices()) return status;
    driver->groups = offered(*driver);
    driver->has_graphs = driver->has_async() && driver->api.has(Need::GRAPH);
    const tb_driver_api table = make_table(*driver);
    if (const tb_status status = tb_driver_fill(out, &table))
      return fail(host, status, "the host's table of %u bytes is smaller than the ABI's prelude", out->struct_size);
    *self = driver.release()->handle();
    return TB_OK;
  });
}
