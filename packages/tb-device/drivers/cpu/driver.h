// The CPU driver's `self`, and its functions as the table has them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/common/error_text.h"
#include "drivers/common/info_struct.h"
#include "drivers/cpu/device.h"
#include "drivers/cpu/ipc/exports.h"
#include "drivers/cpu/memory/memory_blocks.h"
#include "drivers/cpu/memory/virtual_memory.h"
#include "drivers/cpu/options.h"
#include "drivers/cpu/stream/event.h"
#include "drivers/cpu/stream/stream_list.h"

namespace tb::drivers::cpu {

class Driver {
public:
  Driver(const tb_host *host, const Options &options);
  tb_driver *handle() noexcept { return reinterpret_cast<tb_driver *>(this); }

  const tb_host *const host;
  const Options options;
  Exports exports; // before what is exported
  Memory memory;
  VirtualMemory virtual_memory;
  std::vector<std::unique_ptr<Device>> devices;
  StreamList streams;                                                  // after the devices that its streams refer to
  std::atomic<size_t> event_count{0}, module_count{0}, graph_count{0}; // handles given out
  std::mutex peers_mutex;
  std::vector<uint64_t> peers; // by device, a bit for each peer that was enabled

  // NULL with a text when out of range.
  Device *device(int32_t number) const;
  // TB_OK, or a failure when `pointer` is NULL.
  tb_status require(const void *pointer, const char *name) const {
    return pointer ? TB_OK : fail(host, TB_INVALID_ARGUMENT, "%s is NULL", name);
  }
  tb_status refuse_flags(uint64_t flags, uint64_t known) const;
  // Gives an info struct as far as the caller's struct_size knows it.
  template <class Info> tb_status give(Info info, Info *out) const;
};

template <class Info> tb_status Driver::give(Info info, Info *out) const { return fill_info(host, info, out); }

// Runs the body with the driver, for functions of the table. Exceptions end here.
template <class Body> tb_status with(tb_driver *self, Body &&body) noexcept {
  if (!self) return TB_INVALID_ARGUMENT; // nowhere to put a text
  Driver &driver = *reinterpret_cast<Driver *>(self);
  return guarded(driver.host, [&] { return body(driver); });
}

// One function for each slot, in the file of its subject; table.cpp offers those that exist.
#include "drivers/common/declare_slots.inc"

} // namespace tb::drivers::cpu
