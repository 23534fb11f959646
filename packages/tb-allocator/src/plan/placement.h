// placement.h -- where blocks of known lifetimes lie in one piece of memory: dynamic storage allocation, solved offline.
#pragma once

#include <cstdint>
#include <vector>

namespace tb {

// Of the block with the same index: it is allocated as the index-th and freed before the to-th. to > index.
struct Lifetime {
  uint64_t size;
  uint32_t to;
  uint32_t stream; // numbered from 0
};

struct Placement {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0; // from 0 to the end of the highest block
  uint64_t peak = 0;  // the most bytes alive at one time: no placement needs less
  bool apart = true;  // no byte is used by two streams
};

// Blocks that live at the same time never overlap. Takes about `seconds` of the processor at most, and the first, fast heuristic even
// when that is over. Streams stay apart where that costs at most `apart_waste` of the peak.
inline constexpr double apart_waste = 0.012;
Placement place(const std::vector<Lifetime> &blocks, double seconds);

} // namespace tb
