// Fills of host memory with random elements, each a function of seed, offset and its index alone.
//
// The words of a sequence are those of the Philox blocks with the counters `offset`, `offset` + 1..., key `seed`: word
// w is word w % 4 of block w / 4. Element i takes word i, or words 2 i (the lower half) and 2 i + 1 where
// words_per_element is 2. What rejects a word (integers) looks for the next at the same place of the blocks whose
// counter has 1, 2... in its third word: never read otherwise.
//
// All of them throw Refusal for arguments out of their domain, before anything is written.
#pragma once
#include <cstdint>
#include <string>

#include "tb/component.h"

namespace tb::generator {

struct Refusal {
  tb_status status;
  std::string text;
};

struct Range {
  uint64_t first, count;
};

struct State {
  uint64_t seed, offset;
};

// Bytes of an element of type TB_*; 0: no such type.
uint32_t element_size(int32_t type);
// 0: no such kind or type, or the kind has no elements of the type.
uint32_t words_per_element(int32_t kind, int32_t type);
uint64_t words_needed(int32_t kind, int32_t type, uint64_t count);

// Multiples of 2^-24 (float64: 2^-53) of the interval, rounded, kept in from <= x < to. from == to gives from.
void uniform(void *dst, int32_t type, Range range, State state, double from, double to);
// Box and Muller's transform of two neighbours in the sequence. Largest magnitude: 6.8 std, float64 8.7 std.
void normal(void *dst, int32_t type, Range range, State state, double mean, double std);
// from <= x < from + range, each equally probable; range 0: all 64 bits. Floating types round inside the interval.
void integers(void *dst, int32_t type, Range range, State state, int64_t from, uint64_t width);
// 1 with probability p, rounded to a multiple of 2^-32.
void bernoulli(void *dst, int32_t type, Range range, State state, double p);
// Density rate * exp(-rate x); never 0, which the type's smallest value stands in for.
void exponential(void *dst, int32_t type, Range range, State state, double rate);

} // namespace tb::generator
