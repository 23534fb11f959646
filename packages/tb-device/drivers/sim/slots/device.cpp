// The table's functions about devices, peers and the driver itself (CORE, PEER).
#include <cstdio>
#include <cstring>
#include <string_view>

#include "drivers/common/machine.h"
#include "drivers/common/version.h"
#include "drivers/sim/driver.h"

namespace tb::drivers::sim::slots {

tb_status close(tb_driver *self) {
  return with(self, [](Driver &driver) -> tb_status {
    if (Scheduler::inside_any())
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "close was called from work of a stream, which it would wait for");
    size_t blocks = 0;
    for (const auto &device : driver.memory.devices) blocks += device->live_count();
    const Pinned::Counts pinned = driver.memory.pinned.counts();
    const VirtualMemory::Counts ranges = driver.memory.virtual_memory.counts();
    const Driver::Counts handles = driver.counts();
    if (blocks + pinned.allocated + pinned.registered + ranges.reservations + ranges.physicals + handles.modules +
        handles.streams + handles.events)
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "still alive: %zu device blocks, %zu pinned blocks, %zu registered ranges, %zu streams, %zu events, "
                  "%zu address ranges, %zu physical memories, %zu modules. Free and destroy them before close",
                  blocks, pinned.allocated, pinned.registered, handles.streams, handles.events, ranges.reservations,
                  ranges.physicals, handles.modules);
    while (!driver.scheduler.drain(std::chrono::hours(1))) continue;
    if (driver.host->log) {
      const std::string order = "sim: " + driver.scheduler.description();
      driver.host->log(1, order.c_str());
      for (const auto &device : driver.devices)
        for (FailureSlot *slot : {&device->failures, &device->bugs})
          if (const auto failure = slot->peek(UINT64_MAX)) driver.host->log(2, failure->text); // it was never reported
    }
    delete &driver;
    return TB_OK;
  });
}

tb_status get_info(tb_driver *self, tb_driver_info *out) {
  return with(self, [&](Driver &driver) {
    tb_driver_info info = {};
    info.dlpack_type = driver.options.isolated ? 12 /* kDLExtDev */ : 1 /* kDLCPU */;
    std::snprintf(info.name, sizeof info.name, "sim");
    std::snprintf(info.vendor, sizeof info.vendor, "torch-backend");
    std::snprintf(info.version, sizeof info.version, "%s", package_version);
    std::snprintf(info.native, sizeof info.native, "host");
    return driver.give(info, out);
  });
}

tb_status device_count(tb_driver *self, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = driver.options.devices;
    return TB_OK;
  });
}

tb_status device_get_info(tb_driver *self, int32_t number, tb_device_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.device(number, &status)) return status;
    tb_device_info info = {};
    info.flags = driver.options.isolated ? 0 : TB_DEVICE_HOST_ACCESSIBLE;
    std::snprintf(info.name, sizeof info.name, "simulated device");
    const std::string &architecture = driver.options.architecture;
    std::snprintf(info.arch, sizeof info.arch, "%s",
                  architecture.empty() ? processor_architecture() : architecture.c_str());
    std::memcpy(info.uuid, "tb-sim-device", 13);
    info.uuid[15] = static_cast<uint8_t>(number);
    info.total_memory = driver.options.capacity;
    info.max_allocation = driver.options.capacity;
    info.alignment = Blocks::block_alignment;
    info.compute_units = 1; // one thread runs all work
    info.priority_least = 0;
    info.priority_greatest = -1;
    info.pci_domain = info.pci_bus = info.pci_device = -1; // on no such bus
    info.numa_node = -1;
    info.max_argument_size = driver.options.max_argument_size;
    info.lacks = driver.options.lacks;
    info.vector_size = driver.options.vector_size;
    return driver.give(info, out);
  });
}

tb_status device_memory_info(tb_driver *self, int32_t number, uint64_t *out_free, uint64_t *out_total) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(out_free, "out_free"))) return status;
    if ((status = driver.require(out_total, "out_total"))) return status;
    *out_total = driver.options.capacity;
    *out_free = driver.options.capacity - driver.memory.devices[static_cast<size_t>(number)]->used();
    return TB_OK;
  });
}

tb_status device_query(tb_driver *self, int32_t number, const char *key, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.device(number, &status)) return status;
    if ((status = driver.require(key, "key"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    const std::string_view asked = key;
    if (asked == "sim.steps") {
      *out = static_cast<int64_t>(driver.scheduler.steps());
    } else if (asked == "sim.seed") {
      *out = static_cast<int64_t>(driver.options.seed);
    } else if (asked == "sim.problems") {
      *out = static_cast<int64_t>(driver.scheduler.problems().size());
    } else if (asked == "sim.lost") {
      *out = driver.devices[static_cast<size_t>(number)]->lost.load();
    } else {
      return fail(driver.host, TB_NOT_FOUND,
                  "no fact named \"%.80s\"; there are sim.steps, sim.seed, sim.problems, sim.lost", key);
    }
    return TB_OK;
  });
}

tb_status device_activate(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    driver.usable(number, &status);
    return status;
  });
}

tb_status device_reset(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    if (!device) return status;
    if (Scheduler::inside(*device))
      return fail(driver.host, TB_FAILED_PRECONDITION, "work of a device cannot reset it: it would wait for itself");
    driver.reset(*device);
    return TB_OK;
  });
}

tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(name, "name")) return status;
    if (std::strcmp(name, "tb.sim") == 0) return get_sim_extension(driver, version, table, size);
    return fail(driver.host, TB_NOT_FOUND, "the sim driver has no extension \"%.80s\"; it has tb.sim", name);
  });
}

tb_status peer_can_access(tb_driver *self, int32_t number, int32_t peer, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.device(number, &status) || !driver.device(peer, &status)) return status;
    if ((status = driver.require(out, "out"))) return status;
    *out = number != peer;
    return TB_OK;
  });
}

tb_status peer_enable(tb_driver *self, int32_t number, int32_t peer) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status) || !driver.usable(peer, &status)) return status;
    return driver.enable_peer(number, peer, true);
  });
}

tb_status peer_disable(tb_driver *self, int32_t number, int32_t peer) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.device(number, &status) || !driver.device(peer, &status)) return status;
    return driver.enable_peer(number, peer, false);
  });
}

} // namespace tb::drivers::sim::slots
