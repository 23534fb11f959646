// Random numbers inside generated kernels, as functions of a seed and the element's place.
#pragma once
#include "fused.cuh"
#include "random.cuh"

namespace tb::kernels {

__device__ inline Words random_words(Long seed, Long place) {
  return philox(static_cast<Unsigned>(place), 0, static_cast<Unsigned>(seed));
}

// Returns a number in [0, 1) with 24 random bits.
__device__ inline float random_uniform(Long seed, Long place) {
  return static_cast<float>(static_cast<int>(random_words(seed, place).word[0] >> 8)) * 0x1p-24f;
}
__device__ inline float random_normal(Long seed, Long place) {
  const Words words = random_words(seed, place);
  return number::sqrt(2 * negative_log(words.word[0])) * direction(words.word[1]).cosine;
}
// Returns an integer from low to high - 1.
__device__ inline Long random_integer(Long seed, Long place, Long low, Long high) {
  const Words words = random_words(seed, place);
  const Unsigned bits = static_cast<Unsigned>(words.word[1]) << 32 | words.word[0];
  return low + static_cast<Long>(high_product(bits, static_cast<Unsigned>(high) - static_cast<Unsigned>(low)));
}

} // namespace tb::kernels
