// Fills of host memory with random elements, each a function of seed, offset and its index alone.
//
// The words of a sequence are those of the Philox blocks with the counters `offset`, `offset` + 1..., key `seed`: word
// w is word w % 4 of block w / 4. Element i takes word i, or words 2 i (the lower half) and 2 i + 1, or four words; how
// many, words_per_element tells. What rejects a word (integers, truncated normal) looks for the next at the same place of
// the blocks whose counter has 1, 2... in its third word: never read otherwise.
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

// A distribution; which parameters it has stands at its kind.
//
// uniform: first <= x < second. Multiples of 2^-24 (float64: 2^-53) of the interval, rounded, kept inside. Equal: first.
// normal: mean first, standard deviation second. Largest magnitude: 6.8 deviations, float64 8.6.
// integers: from <= x < from + width, equally probable; width 0: all 64 bits. Floating types round inside the interval.
//   Of the two words of int64, widths up to 2^32 leave the second half of a fill's unused.
// bernoulli: 1 with probability first, rounded to a multiple of 2^-32.
// exponential: density rate * exp(-rate x), rate first; never 0, which the type's smallest value stands in for.
// cauchy: median first, half the width at half the density second.
// log_normal: exp of a normal number, mean first, standard deviation second.
// geometric: trials until the first success, probability first; at most the type's highest value.
// truncated_normal: as normal, given that low <= x <= high.
struct Distribution {
  int32_t kind; // TB_FILL_*
  double first = 0, second = 1;
  double low = 0, high = 0;
  int64_t from = 0;
  uint64_t width = 0;
};

void fill(const Distribution &distribution, void *dst, int32_t type, Range range, State state);

// dst = src * mask * scale with the mask of bernoulli(keep); all three start at the range's first element. mask: bytes, or
// null. dst may be src.
void dropout(const void *src, void *dst, void *mask, int32_t type, Range range, State state, double keep, double scale);

} // namespace tb::generator
