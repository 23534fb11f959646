// test_placement.cpp -- the placement of a plan's blocks: blocks that are alive at the same time do not overlap, the
// total is hardly more than the most live bytes, and streams use separate memory as far as there is room.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "fake_driver.h"
#include "plan/placement.h"

namespace {

using tb::allocator::Blocks;
using tb::allocator::Placement;

constexpr uint64_t MiB = uint64_t{1} << 20;

// Calls visit(earlier, later) whenever a block gets bytes that another block had before.
template <class Visit> void follow(const Blocks &blocks, const Placement &placement, Visit visit) {
  struct Part {
    uint64_t to;
    uint32_t block;
  };
  std::map<uint64_t, Part> bytes; // by start: the block that had the bytes last
  for (uint32_t at = 0; at < blocks.size(); ++at) {
    uint64_t from = placement.offsets[at], to = from + blocks[at].size;
    CHECK(to <= placement.bytes && from % 512 == 0);
    auto one = bytes.upper_bound(from);
    if (one != bytes.begin() && std::prev(one)->second.to > from) --one;
    while (one != bytes.end() && one->first < to) {
      auto [start, part] = *one;
      one = bytes.erase(one);
      CHECK(blocks[part.block].to <= at); // otherwise both would be alive at once
      visit(part.block, at);
      if (start < from) bytes[start] = {from, part.block};
      if (part.to > to) bytes[to] = part;
    }
    bytes[from] = {to, at};
  }
}

size_t handovers(const Blocks &blocks, const Placement &placement) {
  size_t count = 0;
  follow(blocks, placement, [&](uint32_t a, uint32_t b) { count += blocks[a].stream != blocks[b].stream; });
  return count;
}

// A program that allocates up to `limit` bytes. The logarithms of sizes are distributed evenly, and young blocks are
// freed first.
class Program {
public:
  explicit Program(uint64_t seed) : random_(seed) {}
  void step(int turns, uint64_t limit, double most_magnitude, uint32_t first_stream, uint32_t streams) {
    std::uniform_real_distribution<double> magnitude(9, most_magnitude);
    for (int turn = 0; turn < turns; ++turn) {
      if (!live_.empty() && (held_ > limit || random_() % 100 < 47)) {
        size_t from = live_.size() - std::min<size_t>(live_.size(), 40);
        free(from + random_() % (live_.size() - from));
        continue;
      }
      uint64_t size = (static_cast<uint64_t>(std::exp2(magnitude(random_))) + 511) / 512 * 512;
      held_ += size;
      live_.push_back(static_cast<uint32_t>(blocks.size()));
      blocks.push_back({size, 0, static_cast<uint32_t>(first_stream + random_() % streams)});
    }
  }
  Blocks end() {
    while (!live_.empty()) free(0);
    return std::move(blocks);
  }
  Blocks blocks;

private:
  void free(size_t which) {
    Blocks::value_type &block = blocks[live_[which]];
    block.to = static_cast<uint32_t>(blocks.size());
    held_ -= block.size;
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(which));
  }
  std::mt19937_64 random_;
  std::vector<uint32_t> live_;
  uint64_t held_ = 0;
};

void blocks_alive_together_never_overlap() {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Program program(seed);
    program.step(static_cast<int>(2 + seed * 10), (1 + seed % 7) * 64 * MiB, 10 + static_cast<double>(seed % 18), 0,
                 static_cast<uint32_t>(1 + seed % 4));
    Blocks blocks = program.end();
    for (double seconds : {0.0, 0.02}) {
      Placement placement = tb::allocator::place(blocks, seconds);
      handovers(blocks, placement);
      CHECK(placement.peak == tb::allocator::peak_of(blocks) && placement.bytes >= placement.peak);
    }
  }
}

// Sizes of up to an eighth of all live bytes, mixed over 8 streams. Any simple order of placement wastes at least 2 %.
void the_hardest_mix_fits() {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Program program(seed);
    program.step(8000, uint64_t{24} << 30, 30, 0, 8);
    Blocks blocks = program.end();
    Placement placement = tb::allocator::place(blocks, 20);
    handovers(blocks, placement);
    CHECK(placement.bytes <= tb::allocator::most_bytes(placement.peak));
  }
}

// One stream always uses much memory and another one little, so there is room for both.
Blocks side_by_side(uint64_t size_of_the_second, int steps) {
  Blocks blocks;
  for (int step = 0; step < steps; ++step) {
    auto at = static_cast<uint32_t>(blocks.size());
    for (uint32_t one = 0; one < 40; ++one) blocks.push_back({8 * MiB, at + 45, 0});
    for (uint32_t one = 0; one < 5; ++one) blocks.push_back({one < 4 ? MiB : size_of_the_second, at + 41 + one, 1});
  }
  return blocks;
}

void streams_stay_apart_where_there_is_room() {
  Blocks blocks = side_by_side(MiB, 20);
  Placement placement = tb::allocator::place(blocks, 5);
  CHECK(handovers(blocks, placement) == 0);
  CHECK(placement.bytes <= tb::allocator::most_bytes(placement.peak));
}

// The second stream's peak is at a time when the first one uses less, so not all of it fits beside the first one's
// peak.
void only_what_has_no_room_of_its_own_shares() {
  Blocks blocks;
  for (int step = 0; step < 20; ++step) {
    auto at = static_cast<uint32_t>(blocks.size());
    for (uint32_t one = 0; one < 40; ++one) blocks.push_back({8 * MiB, at + (one < 10 ? 40 : 60), 0});
    for (uint32_t one = 0; one < 20; ++one) blocks.push_back({MiB / 4, at + 60, 1});
  }
  Placement placement = tb::allocator::place(blocks, 5);
  CHECK(placement.bytes <= tb::allocator::most_bytes(placement.peak));
  size_t count = handovers(blocks, placement);
  CHECK(count > 0 && count < blocks.size() / 5);
}

} // namespace

int main() {
  blocks_alive_together_never_overlap();
  the_hardest_mix_fits();
  streams_stay_apart_where_there_is_room();
  only_what_has_no_room_of_its_own_shares();
}
