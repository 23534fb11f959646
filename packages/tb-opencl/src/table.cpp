// Opening the driver, and the table that it gives.
#include <cstdio>
#include <cstring>

#include "driver/driver.h"
#include "opencl/failure.h"
#include "slots/graph.h"
#include "slots/kernels_table.h"
#include "slots/modules.h"
#include "slots/slot.h"
#include "slots/streams.h"

namespace tb::opencl {
namespace {

tb_status close(tb_driver *self) {
  const size_t blocks = self->memory.live_blocks();
  if (blocks || self->objects)
    return fail(self->host, TB_FAILED_PRECONDITION, 0,
                "%zu blocks of memory and %lld streams, events, modules or graphs are alive", blocks,
                static_cast<long long>(self->objects));
  delete self;
  return TB_OK;
}

tb_status get_info(tb_driver *self, tb_driver_info *out) {
  if (const tb_status status = self->check(out, "out")) return status;
  tb_driver_info info{};
  info.struct_size = sizeof info, info.dlpack_type = 12; // DLPack's number for extension devices
  std::snprintf(info.name, sizeof info.name, "opencl");
  std::snprintf(info.version, sizeof info.version, "%s", TB_PACKAGE_VERSION);
  std::snprintf(info.native, sizeof info.native, "opencl");
  self->cl.clGetPlatformInfo(self->devices.front().platform, CL_PLATFORM_VENDOR, sizeof info.vendor - 1, info.vendor,
                             nullptr);
  return tb_struct_fill(out, &info);
}

tb_status device_count(tb_driver *self, int32_t *out) {
  if (const tb_status status = self->check(out, "out")) return status;
  *out = static_cast<int32_t>(self->devices.size());
  return TB_OK;
}

tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  return tb_struct_fill(out, &self->facts[static_cast<size_t>(device)]);
}

tb_status device_memory_info(tb_driver *self, int32_t device, uint64_t *out_free, uint64_t *out_total) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(out_free, "out_free")) return status;
  if (const tb_status status = self->check(out_total, "out_total")) return status;
  *out_free = self->memory.free_bytes(device);
  *out_total = self->facts[static_cast<size_t>(device)].total_memory;
  return TB_OK;
}

tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  if (const tb_status status = self->check(name, "name")) return status;
  if (const tb_status status = self->check(table, "table")) return status;
  if (give_kernels_table(self, name, version, table, size)) return TB_OK;
  const bool graphs = std::strcmp(name, TB_GRAPH_EXTENSION) == 0 && version == TB_GRAPH_VERSION;
  if (graphs && !self->graphs_obstacle.empty())
    return fail(self->host, TB_NOT_FOUND, 0, "there are no graphs (" TB_GRAPH_EXTENSION "): %s",
                self->graphs_obstacle.c_str());
  if (graphs) return give_graph_table(table, size);
  return fail(self->host, TB_NOT_FOUND, 0, "there is no extension %s of version %u", name, version);
}

tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check_flags(flags, 0)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  return self->memory.allocate(device, size, TB_POINTER_DEVICE, out);
}

tb_status mem_free(tb_driver *self, int32_t device, void *ptr) {
  if (const tb_status status = self->check_device(device)) return status;
  return self->memory.free(ptr, TB_POINTER_DEVICE);
}

tb_status mem_alloc_host(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check_flags(flags, 0)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  return self->memory.allocate(device, size, TB_POINTER_HOST_PINNED, out);
}

tb_status mem_free_host(tb_driver *self, void *ptr) { return self->memory.free(ptr, TB_POINTER_HOST_PINNED); }

tb_status mem_get_info(tb_driver *self, const void *ptr, tb_pointer_info *out) {
  if (const tb_status status = self->check(out, "out")) return status;
  tb_pointer_info info{};
  info.struct_size = sizeof info;
  if (self->memory.find(ptr, &info)) return tb_struct_fill(out, &info);
  return fail(self->host, TB_NOT_FOUND, 0, "%p is not in a block of this driver", ptr);
}

tb_driver_api make_table(const tb_driver &driver) {
  tb_driver_api table{};
  table.struct_size = sizeof table;
  table.abi_major = TB_ABI_MAJOR, table.abi_minor = TB_ABI_MINOR;
  table.groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PTR | TB_GROUP_COPY2D | TB_GROUP_PEER | TB_GROUP_HOSTCALL |
                 TB_GROUP_NATIVE | TB_GROUP_TIMING | TB_GROUP_MODULE;
  if (driver.memory.host_reaches_pinned()) table.groups |= TB_GROUP_PIN;
  table.build_id = "tb-opencl " TB_PACKAGE_VERSION ", " __VERSION__;
#define SLOT(name) table.name = Slot<&name>::call;
  SLOT(close)
  SLOT(get_info)
  SLOT(device_count)
  SLOT(device_get_info)
  SLOT(device_memory_info)
  SLOT(get_extension)
  SLOT(mem_alloc)
  SLOT(mem_free)
  SLOT(mem_copy)
  SLOT(mem_set)
  SLOT(device_synchronize)
  SLOT(stream_default)
  SLOT(stream_create)
  SLOT(stream_destroy)
  SLOT(stream_query)
  SLOT(stream_synchronize)
  SLOT(stream_wait_event)
  SLOT(event_create)
  SLOT(event_destroy)
  SLOT(event_record)
  SLOT(event_query)
  SLOT(event_synchronize)
  SLOT(mem_get_info)
  SLOT(mem_copy_2d)
  SLOT(peer_can_access)
  SLOT(peer_enable)
  SLOT(peer_disable)
  SLOT(peer_copy)
  SLOT(stream_host_call)
  SLOT(stream_native)
  SLOT(stream_wrap)
  SLOT(event_elapsed_ns)
  SLOT(module_load)
  SLOT(module_unload)
  SLOT(module_function)
  SLOT(function_get_info)
  SLOT(launch)
  if (table.groups & TB_GROUP_PIN) {
    SLOT(mem_alloc_host)
    SLOT(mem_free_host)
  }
#undef SLOT
  return table;
}

} // namespace
} // namespace tb::opencl

extern "C" TB_EXPORT tb_status tb_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  using namespace tb::opencl;
  if (!host || !host->set_error) return TB_INVALID_ARGUMENT;
  if (!api || !self) return fail(host, TB_INVALID_ARGUMENT, 0, "OpenCL cannot open: api or self is NULL");
  return guarded(host, [&]() -> tb_status {
    auto driver = std::make_unique<tb_driver>(host);
    if (const tb_status status = driver->open()) return status;
    const tb_driver_api mine = make_table(*driver);
    if (tb_driver_fill(api, &mine) != TB_OK)
      return fail(host, TB_ABI_MISMATCH, 0, "OpenCL cannot open: the host's table is too small");
    *self = driver.release();
    return TB_OK;
  });
}
