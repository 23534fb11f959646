// placement.h -- offsets of blocks of known lifetimes in one piece of memory: dynamic storage allocation, solved
// offline.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/clock.h"

namespace tb::allocator {

// The block with the same index is allocated as the index-th and freed before the to-th. to > index.
struct Lifetime {
  uint64_t size;
  uint32_t to;
  uint32_t stream; // numbered from 0
};
using Blocks = std::vector<Lifetime>;

struct Placement {
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0; // from 0 to the end of the highest block
  uint64_t peak = 0;  // the most bytes allocated at one time: no placement needs less
};

// What a placement may need; the search for a better one ends soon. It is a number of whole pages where that leaves
// room, because the rest of the last page would be wasted.
inline uint64_t most_bytes(uint64_t peak) {
  constexpr double least_use = 0.9865;
  constexpr uint64_t page = uint64_t{2} << 20; // the size on most devices
  auto bytes = static_cast<uint64_t>(static_cast<double>(peak) / least_use);
  uint64_t pages = bytes / page * page;
  return pages >= peak + peak / 200 ? pages : bytes;
}

// streams.cpp. Blocks whose lifetimes overlap never overlap in memory. It takes about `seconds` of processor time at
// most; the first, fast heuristic runs in any case. Streams use each other's bytes only as far as most_bytes() requires
// it.
Placement place(const Blocks &blocks, double seconds);

// placement.cpp. The same for blocks of one stream, or where streams do not matter.
Placement place_together(const Blocks &blocks, Clock::time_point deadline);
// Without the search. A result that needs no more than `good` bytes is improved only until `patience`.
Placement stack(const Blocks &blocks, uint64_t good, Clock::time_point patience, Clock::time_point deadline);
uint64_t peak_of(const Blocks &blocks);

// Some of the blocks, and their indices among all.
struct Part {
  Blocks blocks;
  std::vector<uint32_t> which;
};
template <class Belongs> Part part_of(const Blocks &all, Belongs belongs) {
  Part part;
  std::vector<uint32_t> rank(all.size() + 1); // in the part
  for (uint32_t at = 0; at < all.size(); ++at) {
    bool in = belongs(all[at]);
    rank[at + 1] = rank[at] + in;
    if (in) part.which.push_back(at);
  }
  for (uint32_t at : part.which) part.blocks.push_back({all[at].size, rank[all[at].to], all[at].stream});
  return part;
}

} // namespace tb::allocator
