// The table's functions about devices and the driver itself (CORE).
#include <cstdio>
#include <cstring>
#include <string_view>

#include "drivers/common/machine.h"
#include "drivers/common/version.h"
#include "drivers/cpu/driver.h"
#include "drivers/cpu/slots/graph.h"

namespace tb::drivers::cpu {

Driver::Driver(const tb_host *host, const Options &options)
    : DriverBase(host), options(options), exports(host), memory(host, exports), virtual_memory(host),
      peers(static_cast<size_t>(options.devices)) {
  for (int32_t number = 0; number < options.devices; ++number) {
    devices.push_back(std::make_unique<Device>(host, number, options, tails));
    devices.back()->default_stream = streams.create(*devices.back(), 0, true);
  }
}

Device *Driver::device(int32_t number) const {
  if (number >= 0 && number < options.devices) return devices[static_cast<size_t>(number)].get();
  fail(host, TB_OUT_OF_RANGE,
       "there is no device %d: the CPU driver has %d, from 0 (option \"devices\", TB_CPU_DEVICES)", number,
       options.devices);
  return nullptr;
}

namespace slots {

tb_status close(tb_driver *self) {
  return with(self, [](Driver &driver) {
    if (Stream::running())
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "close was called from work of a stream, which it would wait for");
    driver.streams.join_destroyed(); // also if the process ends with memory that was never freed
    const Memory::Counts blocks = driver.memory.counts();
    const VirtualMemory::Counts ranges = driver.virtual_memory.counts();
    const size_t streams = driver.streams.handle_count(), events = driver.event_count.load(),
                 modules = driver.module_count.load(), graphs = driver.graph_count.load();
    if (blocks.device + blocks.pinned + blocks.registered + blocks.imported + ranges.reservations + ranges.physicals +
        streams + events + modules + graphs)
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "still alive: %zu device blocks, %zu pinned blocks, %zu registered ranges, %zu imported blocks, %zu "
                  "streams, %zu events, %zu "
                  "address ranges, %zu physical memories, %zu modules, %zu graphs. Free and destroy them before close",
                  blocks.device, blocks.pinned, blocks.registered, blocks.imported, streams, events,
                  ranges.reservations, ranges.physicals, modules, graphs);
    driver.streams.close();
    for (const auto &device : driver.devices) {
      const auto failure = device->orphaned_failures().peek(UINT64_MAX);
      if (failure && driver.host->log) driver.host->log(2, failure->text); // it cannot be reported any more
    }
    delete &driver;
    return static_cast<tb_status>(TB_OK);
  });
}

tb_status get_info(tb_driver *self, tb_driver_info *out) {
  return with(self, [&](Driver &driver) {
    tb_driver_info info = {};
    info.dlpack_type = 1; // kDLCPU
    std::snprintf(info.name, sizeof info.name, "cpu");
    std::snprintf(info.vendor, sizeof info.vendor, "torch-backend");
    std::snprintf(info.version, sizeof info.version, "%s", package_version);
    std::snprintf(info.native, sizeof info.native, "host");
    return driver.give(info, out);
  });
}

tb_status device_count(tb_driver *self, int32_t *out) {
  return with(self, [&](Driver &driver) {
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = driver.options.devices;
    return static_cast<tb_status>(TB_OK);
  });
}

tb_status device_get_info(tb_driver *self, int32_t number, tb_device_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    tb_device_info info = {};
    info.flags = TB_DEVICE_HOST_ACCESSIBLE | TB_DEVICE_SURVIVES_FORK; // threads start at a stream's first work
    processor_name(info.name, sizeof info.name);
    std::snprintf(info.arch, sizeof info.arch, "%s", processor_architecture());
    std::memcpy(info.uuid, "tb-cpu-device", 13);
    info.uuid[15] = static_cast<uint8_t>(number);
    info.total_memory = device->budget().limit();
    info.max_allocation = info.total_memory;
    info.alignment = Memory::block_alignment;
    info.compute_units = usable_processors();
    info.priority_least = 0;
    info.priority_greatest = -1;
    info.pci_domain = info.pci_bus = info.pci_device = -1; // on no such bus
    info.numa_node = -1;
    return driver.give(info, out);
  });
}

tb_status device_memory_info(tb_driver *self, int32_t number, uint64_t *out_free, uint64_t *out_total) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out_free, "out_free")) return status;
    if (const tb_status status = driver.require(out_total, "out_total")) return status;
    *out_total = device->budget().limit();
    *out_free = device->free_memory();
    return TB_OK;
  });
}

tb_status device_query(tb_driver *self, int32_t number, const char *key, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number)) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(key, "key")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    const std::string_view asked = key;
    if (asked == "cpu.spin") {
      *out = driver.options.spin;
    } else if (asked == "cpu.queue_bytes") {
      *out = static_cast<int64_t>(ClosureQueue::granule_count * ClosureQueue::granule_bytes);
    } else if (asked == "cpu.largest_closure") {
      *out = static_cast<int64_t>(ClosureQueue::largest);
    } else if (asked == "cpu.workers") {
      *out = static_cast<int64_t>(driver.streams.worker_count());
    } else if (asked == "cpu.run_by_waiters") {
      *out = static_cast<int64_t>(driver.device(number)->run_by_waiters().load(std::memory_order_relaxed));
    } else {
      return fail(driver.host, TB_NOT_FOUND,
                  "no fact named \"%.80s\"; there are cpu.spin, cpu.queue_bytes, cpu.largest_closure, cpu.workers, "
                  "cpu.run_by_waiters",
                  key);
    }
    return TB_OK;
  });
}

tb_status device_activate(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status { return driver.device(number) ? TB_OK : TB_OUT_OF_RANGE; });
}

tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(name, "name")) return status;
    if (name != std::string_view(TB_GRAPH_EXTENSION) || version != TB_GRAPH_VERSION)
      return fail(driver.host, TB_NOT_FOUND,
                  "the CPU driver has no extension \"%.80s\" of version %u, only \"%s\" of %d", name, version,
                  TB_GRAPH_EXTENSION, TB_GRAPH_VERSION);
    if (const tb_status status = driver.require(table, "table")) return status;
    if (size < offsetof(tb_graph_api, capture_begin))
      return fail(driver.host, TB_INVALID_ARGUMENT, "a table of %u bytes has no room for a function", size);
    tb_graph_api mine = graph_table();
    mine.struct_size = size;
    std::memcpy(table, &mine, std::min<size_t>(size, sizeof mine));
    return TB_OK;
  });
}

tb_status peer_can_access(tb_driver *self, int32_t number, int32_t peer, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number) || !driver.device(peer)) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = number != peer; // one address space
    return TB_OK;
  });
}

tb_status peer_enable(tb_driver *self, int32_t number, int32_t peer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number) || !driver.device(peer)) return TB_OUT_OF_RANGE;
    if (number == peer)
      return fail(driver.host, TB_INVALID_ARGUMENT, "device %d needs no peer access to itself", number);
    const uint64_t bit = uint64_t(1) << peer;
    std::lock_guard lock(driver.peers_mutex);
    uint64_t &enabled = driver.peers[static_cast<size_t>(number)];
    if (enabled & bit)
      return fail(driver.host, TB_ALREADY_EXISTS, "access from device %d to %d is enabled already", number, peer);
    enabled |= bit;
    return TB_OK;
  });
}

tb_status peer_disable(tb_driver *self, int32_t number, int32_t peer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number) || !driver.device(peer)) return TB_OUT_OF_RANGE;
    const uint64_t bit = uint64_t(1) << peer;
    std::lock_guard lock(driver.peers_mutex);
    uint64_t &enabled = driver.peers[static_cast<size_t>(number)];
    if (!(enabled & bit))
      return fail(driver.host, TB_FAILED_PRECONDITION, "access from device %d to %d is not enabled", number, peer);
    enabled &= ~bit;
    return TB_OK;
  });
}

} // namespace slots
} // namespace tb::drivers::cpu
