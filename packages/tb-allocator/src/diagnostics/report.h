// report.h -- what a user reads when memory runs out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tb::allocator {

std::string bytes_text(uint64_t bytes); // "1.50 GiB"

// The figures of a request that found no memory. Sizes are bytes.
struct OutOfMemory {
  int32_t device = -1;                 // -1: pinned host memory
  uint64_t requested = 0, rounded = 0; // as asked, and with the rounding
  bool driver_known = false;           // whether the driver gave the next two
  uint64_t driver_free = 0, driver_total = 0;
  uint64_t limit = UINT64_MAX, reserved = 0, allocated = 0, pending = 0;
  uint64_t free_here = 0, free_elsewhere = 0, largest_free = 0; // here: of the request's stream
  bool pages = false;                                           // whether the heap maps pages
  struct Free {
    const void *stream;
    uint64_t bytes;
  };
  std::vector<Free> by_stream; // those with free memory
};

// The figures, and what would have helped.
std::string out_of_memory_text(const OutOfMemory &all);

} // namespace tb::allocator
