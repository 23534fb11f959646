// The table's functions about the driver and its devices (CORE), and their end.
#include <cstdio>
#include <cstring>

#include "drivers/common/version.h"
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

constexpr uint32_t block_alignment = 256; // of cuMemAlloc
// Streams' priorities where there are any: the most levels that devices have had. Asking would take a context, and
// cuStreamCreateWithPriority takes what a device lacks for the nearest that it has.
constexpr int32_t greatest = -5;

// No questions that need a context.
tb_status describe(Driver &driver, Device &device, tb_device_info *info) {
  const Api &api = driver.api;
  tb_status status = TB_OK;
  const auto ask = [&](int which) { // keeps the first failure
    int value = 0;
    const CUresult result = api.cuDeviceGetAttribute(&value, which, device.native);
    if (status == TB_OK) status = driver.report(device, result, "cuDeviceGetAttribute");
    return value;
  };
  size_t total = 0;
  if ((status = driver.report(device, api.cuDeviceTotalMem(&total, device.native), "cuDeviceTotalMem"))) return status;
  status = driver.report(device, api.cuDeviceGetName(info->name, sizeof info->name, device.native), "cuDeviceGetName");
  info->name[sizeof info->name - 1] = 0;
  info->total_memory = info->max_allocation = total;
  info->alignment = block_alignment;
  const int major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  std::snprintf(info->arch, sizeof info->arch, "sm_%d%d", major, minor);
  info->max_argument_size = 4096; // of every architecture; sm_70 and later take more since CUDA 12.1
  info->compute_units = static_cast<uint32_t>(ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  info->priority_greatest = ask(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED) ? greatest : 0;
  info->pci_domain = ask(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  info->pci_bus = ask(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  info->pci_device = ask(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  info->numa_node = api.version >= 12020 ? ask(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) : -1;
  std::memcpy(info->uuid, device.uuid.bytes, sizeof info->uuid);
  return status;
}

struct Fact {
  const char *key;
  int attribute;
};

constexpr Fact facts[] = {
    {"cuda.compute_capability_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {"cuda.compute_capability_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {"cuda.warp_size", CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {"cuda.max_threads_per_block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {"cuda.max_shared_memory_per_block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
};

// What is alive, for close's refusal; "" for nothing.
std::string alive(Driver &driver) {
  std::string text;
  const auto add = [&](int64_t count, const char *what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  size_t blocks = 0;
  for (const auto &device : driver.devices) {
    std::lock_guard lock(device->mutex);
    blocks += device->blocks.size();
  }
  std::lock_guard lock(driver.mutex);
  add(static_cast<int64_t>(blocks), "blocks of memory");
  add(static_cast<int64_t>(driver.host_ranges.size()), "ranges of host memory");
  add(static_cast<int64_t>(driver.reservations.size()), "ranges of addresses");
  add(driver.live.streams, "streams");
  add(driver.live.events, "events");
  add(driver.live.physicals, "pieces of physical memory");
  add(driver.live.modules, "modules");
  add(driver.live.graphs, "graphs");
  add(driver.live.imports, "imported blocks");
  return text;
}

// Waits for the device and releases its context. Failures are logged and do not keep the driver open.
void let_go(Driver &driver, Device &device) {
  if (!device.context) return;
  {
    const Current current(driver, device);
    if (current.status == TB_OK) {
      const CUresult result = driver.api.cuCtxSynchronize();
      if (result != CUDA_SUCCESS)
        driver.host->log(2, ("work was lost at the end: cuCtxSynchronize gave " + std::to_string(result)).c_str());
      driver.reap_modules(device, true);
    }
  }
  if (const CUresult result = driver.api.cuDevicePrimaryCtxRelease(device.native))
    driver.host->log(2, ("cuDevicePrimaryCtxRelease failed with " + std::to_string(result)).c_str());
}

} // namespace

namespace slots {

tb_status close(tb_driver *self) {
  return with(self, [&](Driver &driver) -> tb_status {
    const std::string left = alive(driver);
    if (!left.empty())
      return fail(driver.host, TB_FAILED_PRECONDITION, "these are still alive: %s. Release them first", left.c_str());
    for (const auto &device : driver.devices) let_go(driver, *device);
    delete &driver;
    return TB_OK;
  });
}

tb_status get_info(tb_driver *self, tb_driver_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_driver_info info = {};
    info.dlpack_type = 2; // kDLCUDA
    std::snprintf(info.name, sizeof info.name, "cuda");
    std::snprintf(info.vendor, sizeof info.vendor, "NVIDIA, through tb-device");
    std::snprintf(info.version, sizeof info.version, "%s, CUDA driver API %d.%d", package_version,
                  driver.api.version / 1000, driver.api.version % 1000 / 10);
    std::snprintf(info.native, sizeof info.native, "cuda");
    return fill_info(driver.host, info, out);
  });
}

tb_status device_count(tb_driver *self, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = static_cast<int32_t>(driver.devices.size());
    return TB_OK;
  });
}

tb_status device_get_info(tb_driver *self, int32_t number, tb_device_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    tb_device_info info = {};
    if (!device || (status = describe(driver, *device, &info))) return status;
    return fill_info(driver.host, info, out);
  });
}

tb_status device_memory_info(tb_driver *self, int32_t number, uint64_t *out_free, uint64_t *out_total) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out_free, "out_free"))) return status;
    if ((status = driver.require(out_total, "out_total"))) return status;
    size_t free = 0, total = 0;
    unsigned flags = 0;
    int active = device->context != nullptr;
    if (!active && driver.api.cuDevicePrimaryCtxGetState)
      driver.api.cuDevicePrimaryCtxGetState(device->native, &flags, &active);
    if (!active) { // a question makes no context
      status = driver.report(*device, driver.api.cuDeviceTotalMem(&total, device->native), "cuDeviceTotalMem");
      free = total;
    } else {
      const Current current(driver, *device);
      status = current.status ? current.status
                              : driver.report(*device, driver.api.cuMemGetInfo(&free, &total), "cuMemGetInfo");
    }
    if (status) return status;
    *out_free = free;
    *out_total = total;
    return TB_OK;
  });
}

tb_status device_query(tb_driver *self, int32_t number, const char *key, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    if (!device) return status;
    if ((status = driver.require(key, "key"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    if (!std::strcmp(key, "cuda.driver_version")) {
      *out = driver.api.version;
      return TB_OK;
    }
    for (const Fact &fact : facts) {
      if (std::strcmp(key, fact.key) != 0) continue;
      int value = 0;
      status = driver.report(*device, driver.api.cuDeviceGetAttribute(&value, fact.attribute, device->native),
                             "cuDeviceGetAttribute");
      if (status == TB_OK) *out = value;
      return status;
    }
    return fail(driver.host, TB_NOT_FOUND, "the CUDA driver knows no fact \"%.80s\"", key);
  });
}

tb_status device_activate(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    {
      const Current made(driver, *device); // the context, if there is none yet
      if (made.status) return made.status;
    }
    return driver.report(*device, driver.api.cuCtxSetCurrent(device->context), "cuCtxSetCurrent");
  });
}

tb_status device_reset(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    if (!device) return status;
    const CUresult result = driver.api.cuDevicePrimaryCtxReset(device->native);
    if (result != CUDA_SUCCESS)
      return fail_cuda(driver.host, driver.api, status_of(result), result, "cuDevicePrimaryCtxReset",
                       "Start a new process");
    std::lock_guard lock(device->mutex);
    device->stream.generation = ++device->generation;
    device->lost = CUDA_SUCCESS;
    device->captures = 0;
    device->capturing.clear();
    device->unloaded.clear();
    device->strays = false;
    return TB_OK;
  });
}

tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(name, "name")) return status;
    if (std::strcmp(name, TB_GRAPH_EXTENSION) != 0 || version != TB_GRAPH_VERSION || !driver.has_graphs)
      return fail(driver.host, TB_NOT_FOUND, "the CUDA driver has no extension %.80s of version %u here", name,
                  version);
    if (const tb_status status = driver.require(table, "table")) return status;
    tb_graph_api mine = graph_table();
    if (size < sizeof(uint32_t))
      return fail(driver.host, TB_INVALID_ARGUMENT, "a table of %u bytes holds nothing", size);
    mine.struct_size = size < sizeof mine ? size : static_cast<uint32_t>(sizeof mine);
    std::memcpy(table, &mine, mine.struct_size);
    return TB_OK;
  });
}

tb_status device_synchronize(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if (!device->context) return TB_OK; // nothing was ever queued
    if (device->captures)
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "a stream of device %d captures: end the capture before waiting for the device", number);
    const Current current(driver, *device);
    if (current.status) return current.status;
    {
      std::lock_guard lock(device->mutex);
      device->strays = false; // those until now are waited for
    }
    if ((status = driver.report(*device, driver.api.cuCtxSynchronize(), "cuCtxSynchronize"))) return status;
    if (driver.groups & TB_GROUP_MODULE) driver.reap_modules(*device, false);
    return TB_OK;
  });
}

} // namespace slots
} // namespace tb::drivers::cuda
