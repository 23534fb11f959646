// Words to integers of an interval: the upper half of word * width.
#pragma once
#include <cstdint>

namespace tb::generator {

// out[i] = from + upper half of random[i] * width, modulo 2^32. True if a lower half was below `biased`.
using Scaled = bool (*)(const uint32_t *random, uint32_t *out, uint32_t count, uint32_t width, uint32_t biased,
                        uint32_t from);

// The best one for the instruction set in use. All of them give the same numbers.
Scaled scaled();

} // namespace tb::generator
