// The generator of the scheduler's choices: the same numbers for a seed on every machine.
#pragma once

#include <cstdint>

namespace tb::drivers::sim {

// SplitMix64 (Steele, Lea and Flood, 2014): any seed is a good one, also 0.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() noexcept {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }
  // 0 to limit - 1. The bias of the remainder does not matter for choosing among a few streams.
  uint64_t below(uint64_t limit) noexcept { return next() % limit; }
  // True `of_256` times out of 256.
  bool chance(uint32_t of_256) noexcept { return (next() & 255) < of_256; }

private:
  uint64_t state_;
};

} // namespace tb::drivers::sim
