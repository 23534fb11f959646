// table.h -- the heaps of the process behind the C table that other components import.
#pragma once

#include <exception>
#include <new>

#include "host.h"

namespace tb {

extern const tb_allocator_table allocator_table;
extern const tb_export allocator_export;

class Heap;
// A device's heap, made where there is none yet; device -1: that of pinned memory.
tb_status heap_for(int32_t device, Heap **out);
// One more heap of a device. contiguous: in segments of the driver's plain memory.
tb_status make_arena(int32_t device, uint64_t limit, bool contiguous, Heap **out);

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

} // namespace tb
