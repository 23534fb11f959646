// The CPU driver's `self`, and its functions as the table has them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/common/driver_base.h"
#include "drivers/cpu/device/device.h"
#include "drivers/cpu/device/options.h"
#include "drivers/cpu/ipc/exports.h"
#include "drivers/cpu/memory/memory_blocks.h"
#include "drivers/cpu/memory/virtual_memory.h"
#include "drivers/cpu/stream/event.h"
#include "drivers/cpu/stream/stream_list.h"
#include "drivers/cpu/stream/stream_tails.h"

namespace tb::drivers::cpu {

class Driver : public DriverBase {
public:
  Driver(const tb_host *host, const Options &options);
  tb_driver *handle() noexcept { return reinterpret_cast<tb_driver *>(this); }

  const Options options;
  Exports exports; // destroyed after the memory that it exports
  Memory memory;
  VirtualMemory virtual_memory;
  StreamTails tails; // before the devices
  std::vector<std::unique_ptr<Device>> devices;
  StreamList streams;                                                  // after the devices that its streams refer to
  std::atomic<size_t> event_count{0}, module_count{0}, graph_count{0}; // handles given out
  std::mutex peers_mutex;
  std::vector<uint64_t> peers; // by device, a bit for each peer that was enabled

  // NULL with a text when out of range.
  Device *device(int32_t number) const;
};

// Runs the body of a function of the table with its driver. Exceptions become statuses here.
template <class Body> tb_status with(tb_driver *self, Body &&body) noexcept {
  if (!self) return TB_INVALID_ARGUMENT; // there is no host to take a text
  Driver &driver = *reinterpret_cast<Driver *>(self);
  return guarded(driver.host, [&] { return body(driver); });
}

#include "drivers/common/declare_slots.inc"

} // namespace tb::drivers::cpu
