// Philox4x32-10: makes four random words of a 128-bit counter and a 64-bit key. After Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once
#include <array>
#include <cstdint>

namespace tb::generator::philox {

using Block = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

// The multipliers are from the paper's table 2. The key's steps are the golden ratio and the square root of 3 less 1,
// as in section 4.
constexpr uint32_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
constexpr uint32_t step_0 = 0x9E3779B9, step_1 = 0xBB67AE85;
constexpr int rounds = 10;

constexpr Key key_of(uint64_t seed) { return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}; }

constexpr Block block(Block counter, Key key) {
  for (int round = 0; round < rounds; round++) {
    const uint64_t product_0 = uint64_t{multiplier_0} * counter[0], product_1 = uint64_t{multiplier_1} * counter[2];
    counter = {static_cast<uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product_1),
               static_cast<uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product_0)};
    key[0] += step_0;
    key[1] += step_1;
  }
  return counter;
}

// The number of blocks that are computed side by side.
constexpr uint32_t lanes = 16;

// Writes the words of `groups` * lanes blocks with the counters `counter`, `counter` + 1... (modulo 2^64; the upper 64
// bits are zero), in order.
using Words = void (*)(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups);

void words_portable(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups);
// These need a processor that has the instructions (instruction_set.h).
void words_avx2(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups);
void words_avx512(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups);

} // namespace tb::generator::philox
