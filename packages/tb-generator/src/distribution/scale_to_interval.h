// Scales random words to integers of an interval: the upper half of word * width.
#pragma once
#include <cstdint>

namespace tb::generator {

// out[i] = from + upper half of random[i] * width, modulo 2^32. Returns whether a lower half was less than `biased`.
using Scale32 = bool (*)(const uint32_t *random, uint32_t *out, uint32_t count, uint32_t width, uint32_t biased,
                         uint32_t from);

// The same with 64-bit results: out[i] = from + upper half, modulo 2^64.
using Scale64 = bool (*)(const uint32_t *random, uint64_t *out, uint32_t count, uint32_t width, uint32_t biased,
                         uint64_t from);

// The fastest function for the instruction set in use. All of them give the same numbers.
Scale32 scale_32();
// The same for a fill of `total` numbers. Large fills write past the caches: finish_streaming() must follow.
Scale64 scale_64(uint64_t total);
// Makes what was written past the caches visible to other threads.
void finish_streaming();

} // namespace tb::generator
