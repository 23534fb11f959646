// emulated.h -- a driver without memory, for replaying traces: counts calls, bounds bytes, and lets streams lag.
//
// Addresses are invalid and never touched. Work of a stream is done `lag` events of the trace after it was queued, or
// when the host waits. A call that breaks the rules of driver_slots.inc ends the process, because the allocator has a
// bug.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

#include "host.h"

struct tb_stream {
  tb_driver *driver;
  uint64_t waited = 0; // the time of an event of another stream that this one waits for
};
struct tb_event {
  tb_driver *driver;
  uint64_t done = 0; // the time at which it is
};
struct tb_physical {
  uint64_t size;
  uint32_t references; // the handle and each mapping
};

struct tb_driver {
  struct Free {
    void operator()(void *array) const noexcept { std::free(array); }
  };
  enum Call {
    allocate,
    free,
    pin,
    unpin,
    reserve,
    release,
    create,
    destroy,
    map,
    unmap,
    access,
    record,
    query,
    wait,
    sync,
    end
  };
  static constexpr std::array<const char *, end> names = {
      "mem_alloc",   "mem_free",     "mem_alloc_host", "mem_free_host", "vmm_reserve",
      "vmm_release", "vmm_create",   "vmm_destroy",    "vmm_map",       "vmm_unmap",
      "set_access",  "event_record", "event_query",    "stream_wait",   "synchronize"};
  explicit tb_driver(uint64_t bytes, uint64_t stream_lag) : capacity(bytes), lag(stream_lag) {}

  tb_physical *page_at(uint64_t address) const; // NULL: nothing is mapped there

  uint64_t capacity;
  uint64_t lag;
  uint64_t now = 0;  // events of the trace so far
  uint64_t done = 0; // everything queued up to this time is done, because the host waited for it
  uint64_t used = 0, peak = 0;
  std::array<uint64_t, end> calls{};
  std::unordered_map<void *, uint64_t> blocks;
  struct Page {
    tb_physical *memory; // NULL: not mapped
    uint32_t length;     // in pages, at the first page of a mapping
  };
  struct Range {
    uint64_t base = 0, size = 0;
    std::unique_ptr<Page[], Free> pages; // zeroed by the system when first touched
  };
  std::vector<Range> ranges; // by the upper bits of the address
  static const Range none;
  const Range *recent = &none; // the last of them that was looked at
  uint64_t next_block = uint64_t{1} << 60;
  tb_stream standard{this};
};

namespace tb::allocator {

inline constexpr uint64_t emulated_page = uint64_t{2} << 20;

// The table of every tb_driver above.
const tb_driver_api &emulated_api();

} // namespace tb::allocator
