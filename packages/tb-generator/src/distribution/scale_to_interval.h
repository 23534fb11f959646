// Words to integers of an interval: the upper half of word * width.
#pragma once
#include <cstdint>

namespace tb::generator {

// out[i] = from + upper half of random[i] * width, modulo 2^32. True if a lower half was below `biased`.
using Scaled = bool (*)(const uint32_t *random, uint32_t *out, uint32_t count, uint32_t width, uint32_t biased,
                        uint32_t from);

// The same with results of 64 bits: out[i] = from + upper half, modulo 2^64.
using ScaledWide = bool (*)(const uint32_t *random, uint64_t *out, uint32_t count, uint32_t width, uint32_t biased,
                            uint64_t from);

// The best one for the instruction set in use. All of them give the same numbers.
Scaled scaled();
// Large fills write past the caches, and end with finish_streaming().
ScaledWide scaled_wide(uint64_t total); // of so many numbers
// Until then other threads may not see what was written.
void finish_streaming();

} // namespace tb::generator
