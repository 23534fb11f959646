// Host memory that the device reads and writes directly: allocated here, or the caller's own.
//
// Freed memory is poisoned and kept for a while, so that a copy that still runs reads poison instead of other data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "tb/driver.h"

namespace tb::drivers::sim {

class Pinned {
public:
  static constexpr uint64_t block_alignment = 64;

  explicit Pinned(const tb_host *host) : host_(host) {}

  tb_status allocate(int32_t device, uint64_t size, void **out);
  // At the call: the memory is no longer the caller's. bury() follows, in the order of the steps.
  tb_status begin_free(void *pointer);
  void bury(void *pointer);
  tb_status register_range(int32_t device, void *pointer, uint64_t size);
  tb_status unregister_range(void *pointer);
  bool find(const void *pointer, tb_pointer_info *out); // fills all but struct_size

  struct Counts {
    size_t allocated, registered;
  };
  Counts counts();

private:
  struct Release {
    void operator()(std::byte *memory) const noexcept;
  };
  using Owned = std::unique_ptr<std::byte, Release>;
  struct Range {
    uint64_t size;
    int32_t device;
    Owned memory; // NULL: the caller's own
  };
  struct Dead {
    Owned memory;
    uint64_t size;
  };
  using Ranges = std::map<uintptr_t, Range>;
  Ranges::iterator holding(uintptr_t address); // with the lock held

  const tb_host *const host_;
  std::mutex mutex_;
  Ranges ranges_;
  std::map<void *, Dead> freed_; // not yet poisoned
  std::deque<Dead> quarantine_;
  uint64_t quarantined_ = 0;
};

} // namespace tb::drivers::sim
