// The table's functions about the driver, its devices and peers (CORE, PEER).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "drivers/common/version.h"
#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {

int64_t device_fact(Driver &driver, int32_t device, int32_t attribute) {
  driver.runtime->initialize();
  int64_t value = 0;
  driver.call(driver.library.aclrtGetDeviceInfo, static_cast<uint32_t>(device), attribute, &value);
  return value;
}

// Without aclrtGetDeviceInfo the facts of a device are available only while it is set.
uint64_t total_memory(Driver &driver, int32_t device) {
  if (driver.library.aclrtGetDeviceInfo)
    return static_cast<uint64_t>(device_fact(driver, device, acl::total_memory_key));
  const Bound bound = driver.bind(device);
  size_t free = 0, total = 0;
  driver.call(driver.library.aclrtGetMemInfo, int32_t(acl::hbm), &free, &total);
  return total;
}

struct Fact {
  std::string_view key;
  int32_t attribute;
};
constexpr Fact facts[] = {{"npu.ai_cores", acl::ai_cores},
                          {"npu.cube_cores", acl::cube_cores},
                          {"npu.vector_cores", acl::vector_cores},
                          {"npu.l2_bytes", acl::l2_bytes}};

} // namespace

namespace slots {

tb_status close(tb_driver *self) {
  return with(self, [](Driver &driver) {
    const Ranges::Counts blocks = driver.ranges.counts();
    const VirtualMemory::Counts ranges = driver.virtual_memory.counts();
    const size_t streams = driver.stream_count, events = driver.event_count;
    if (blocks.device + blocks.pinned + blocks.registered + ranges.reservations + ranges.physicals + streams + events)
      refuse(TB_FAILED_PRECONDITION,
             "still alive: %zu device blocks, %zu pinned blocks, %zu registered ranges, %zu streams, %zu events, %zu "
             "address ranges, %zu physical memories. Free and destroy them before close",
             blocks.device, blocks.pinned, blocks.registered, streams, events, ranges.reservations, ranges.physicals);
    driver.shut_down();
    delete &driver;
  });
}

tb_status get_info(tb_driver *self, tb_driver_info *out) {
  return with(self, [&](Driver &driver) {
    tb_driver_info info = {};
    info.dlpack_type = 12; // kDLExtDev
    std::snprintf(info.name, sizeof info.name, "npu");
    std::snprintf(info.vendor, sizeof info.vendor, "torch-backend");
    std::snprintf(info.version, sizeof info.version, "%s", package_version);
    std::snprintf(info.native, sizeof info.native, "acl");
    return fill_info(driver.host, info, out);
  });
}

tb_status device_count(tb_driver *self, int32_t *out) {
  return with(self, [&](Driver &driver) {
    driver.need(out, "out");
    *out = driver.runtime->device_count();
  });
}

tb_status device_get_info(tb_driver *self, int32_t device, tb_device_info *out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.runtime->initialize();
    const Library &library = driver.library;
    const char *soc = library.aclrtGetSocName(); // of device 0, as all of a machine are the same
    tb_device_info info = {};
    std::snprintf(info.name, sizeof info.name, "%s", soc ? soc : "Ascend");
    std::snprintf(info.arch, sizeof info.arch, "%s", soc ? soc : "");
    if (library.aclrtDeviceGetUuid) {
      acl::Uuid uuid = {};
      driver.call(library.aclrtDeviceGetUuid, device, &uuid);
      std::memcpy(info.uuid, uuid.bytes, sizeof info.uuid);
    } else {
      std::memcpy(info.uuid, "tb-npu-device", 13);
      info.uuid[15] = static_cast<uint8_t>(device);
    }
    info.total_memory = info.max_allocation = total_memory(driver, device);
    info.alignment = 64; // of aclrtMalloc
    if (library.aclrtGetDeviceInfo)
      info.compute_units = static_cast<uint32_t>(device_fact(driver, device, acl::ai_cores));
    info.pci_domain = info.pci_bus = info.pci_device = info.numa_node = -1; // not asked for
    return fill_info(driver.host, info, out);
  });
}

tb_status device_memory_info(tb_driver *self, int32_t device, uint64_t *out_free, uint64_t *out_total) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out_free, "out_free");
    driver.need(out_total, "out_total");
    const Bound bound = driver.bind(device);
    size_t free = 0, total = 0;
    driver.call(driver.library.aclrtGetMemInfo, int32_t(acl::hbm), &free, &total);
    const uint64_t known = total_memory(driver, device);
    *out_free = std::min<uint64_t>(free, known);
    *out_total = known;
  });
}

tb_status device_query(tb_driver *self, int32_t device, const char *key, int64_t *out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(key, "key");
    driver.need(out, "out");
    for (const Fact &fact : facts)
      if (fact.key == key) {
        *out = device_fact(driver, device, fact.attribute);
        return;
      }
    refuse(TB_NOT_FOUND,
           "no fact named \"%.80s\"; there are npu.ai_cores, npu.cube_cores, npu.vector_cores, "
           "npu.l2_bytes",
           key);
  });
}

tb_status device_activate(tb_driver *self, int32_t device) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.bind(device).keep();
  });
}

tb_status peer_can_access(tb_driver *self, int32_t device, int32_t peer, int32_t *out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need_device(peer);
    driver.need(out, "out");
    *out = device != peer && driver.reaches(device, peer);
  });
}

tb_status peer_enable(tb_driver *self, int32_t device, int32_t peer) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need_device(peer);
    if (device == peer) refuse(TB_INVALID_ARGUMENT, "device %d needs no peer access to itself", device);
    if (!driver.reaches(device, peer)) refuse(TB_UNSUPPORTED, "device %d does not reach device %d", device, peer);
    driver.connect(device, peer);
    if (!driver.set_enabled(device, peer, true))
      refuse(TB_ALREADY_EXISTS, "access from device %d to %d is enabled already", device, peer);
  });
}

// The library's access stays until the device is reset: copies that are queued may still need it, and later ones of
// peer_copy, which must work without peer_enable, surely do.
tb_status peer_disable(tb_driver *self, int32_t device, int32_t peer) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need_device(peer);
    if (!driver.set_enabled(device, peer, false))
      refuse(TB_FAILED_PRECONDITION, "access from device %d to %d is not enabled", device, peer);
  });
}

} // namespace slots
} // namespace tb::drivers::npu
