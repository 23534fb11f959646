// device_heaps.h -- the heaps of the process: one for each device and one for pinned memory, created at first use.
//
// Heaps are never destroyed: blocks may come back at any time, from any thread. All functions may be called from any
// thread.
#pragma once

#include <atomic>
#include <exception>
#include <new>

#include "heap/heap.h"
#include "host.h"

namespace tb::allocator {

extern std::atomic<bool> ended; // after shutdown nothing is allocated and nothing goes back
inline bool usable() { return !ended.load(std::memory_order_relaxed) && !*host.forked; }

inline constexpr int32_t device_limit = 128; // PyTorch's device index is a signed byte
extern std::atomic<Heap *> device_heaps[device_limit];
extern std::atomic<Heap *> pinned_heap;

// The heap, created if there is none; otherwise the reason for which there can be none.
tb_status find_or_make_heap(int32_t device, bool pinned, Heap **out);

// A device's heap. Throws std::bad_alloc.
inline tb_status heap_of(int32_t device, Heap **out) {
  if (static_cast<uint32_t>(device) < static_cast<uint32_t>(device_limit) && usable()) [[likely]]
    if (Heap *heap = device_heaps[device].load(std::memory_order_acquire)) [[likely]] {
      *out = heap;
      return TB_OK;
    }
  return find_or_make_heap(device, false, out);
}
inline tb_status heap_of_host(Heap **out) {
  if (usable())
    if (Heap *heap = pinned_heap.load(std::memory_order_acquire)) {
      *out = heap;
      return TB_OK;
    }
  return find_or_make_heap(-1, true, out);
}
// Either of them; device -1: that of pinned memory. Does not throw.
tb_status heap_for(int32_t device, Heap **out);

// Calls the function when the process ends, after the heaps have shut down. Once for each function.
void at_shutdown(void (*function)());

// The one place where C++ exceptions (memory for our own records) become status.
template <class Function> tb_status guarded(int32_t device, const char *function, Function body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(TB_OUT_OF_MEMORY, device, function, "the host has no memory for the allocator's own records");
  } catch (const std::exception &error) {
    return fail(TB_INTERNAL, device, function, error.what());
  }
}

} // namespace tb::allocator
