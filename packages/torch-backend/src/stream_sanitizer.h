// stream_sanitizer.h -- tells the layer `races` of tb-device which memory PyTorch's operators use (tb/races.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "tb/races.h"

namespace tb::backend {

// The layer's table, once it watches; NULL in a program without the layer.
extern std::atomic<const tb_races_api *> race_checker;

// For the allocator: memory begins a new life.
inline void tell_allocated(const void *address, uint64_t size) {
  if (const tb_races_api *checker = race_checker.load(std::memory_order_relaxed)) [[unlikely]]
    checker->allocated(checker->layer, address, size);
}

// Watches all operators of all threads from now on, if the open driver has the layer; returns whether it has. `report` is
// called with the GIL after an operator in which races were found.
bool watch_streams(void (*report)());

} // namespace tb::backend
