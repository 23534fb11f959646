// table.h -- the heaps of the process behind the C table that other components import.
#pragma once

#include <atomic>
#include <exception>
#include <new>

#include "host.h"

namespace tb::allocator {

extern const tb_allocator_table allocator_table;
extern const tb_export allocator_export;

extern std::atomic<bool> ended; // after shutdown nothing is allocated and nothing given back
inline bool usable() { return !ended.load(std::memory_order_relaxed) && !*host.forked; }

class Heap;
// A device's heap, made where there is none yet; device -1: that of pinned memory.
tb_status heap_for(int32_t device, Heap **out);

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
