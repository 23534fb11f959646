// exercise.h -- random operations on an allocator, each checked against a map of what is allocated.
#pragma once

#include <cstdint>
#include <string>

namespace tb::allocator {

struct ExerciseResult {
  uint64_t allocations = 0, out_of_memory = 0, pages_mapped = 0, waits = 0, synchronisations = 0;
  uint64_t remapped = 0; // blocks in a page that is also mapped at another block's address
  std::string broken;    // the first promise that did not hold, with the operation; "" if all held
};

// Runs over the driver without memory, with 4 streams that lag behind. The promises: allocated blocks never overlap, by
// address or in memory, and keep their pages; addresses are aligned; statistics agree with the map; all memory goes
// back to the driver at the end.
ExerciseResult exercise_streams(uint64_t operations, uint64_t seed);

// The same with threads that free each other's blocks, and without recorded streams. Statistics are compared while no
// thread runs operations, since they are exact only then.
ExerciseResult exercise_threads(uint64_t operations, uint64_t seed, uint32_t threads);

} // namespace tb::allocator
