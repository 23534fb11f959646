// Fills of host memory with random elements. Each element depends on the seed, the offset and its index alone.
//
// The words of a sequence are those of the Philox blocks with the counters `offset`, `offset` + 1 and so on, and the
// key `seed`: word w is word w % 4 of block w / 4. Element i takes word i, or words 2 i (the lower half) and 2 i + 1,
// or four words; words_per_element() returns how many. A distribution that rejects a word (integers, truncated normal)
// takes the next one at the same position of the blocks whose counters have 1, 2 and so on in their third word. Nothing
// else reads those blocks.
//
// Every function throws Refusal for arguments outside its domain before it writes anything.
#pragma once
#include <cstdint>
#include <string>

#include "philox/state.h"
#include "tb/component.h"

namespace tb::generator {

struct Refusal {
  tb_status status;
  std::string text;
};

struct Range {
  uint64_t first, count;
};

// Bytes of an element of type TB_*; 0 if there is no such type.
uint32_t element_size(int32_t type);
// 0 if there is no such kind or type, or if the kind has no elements of the type.
uint32_t words_per_element(int32_t kind, int32_t type);
uint64_t words_needed(int32_t kind, int32_t type, uint64_t count);

// A distribution and its parameters, whose meaning depends on the kind:
//
// uniform: first <= x < second. Multiples of 2^-24 (float64: 2^-53) of the interval, rounded, and clamped to it. If
//   both bounds are equal, every element is `first`.
// normal: mean first, standard deviation second. Largest magnitude: 6.8 deviations, float64 8.6.
// integers: from <= x < from + width, equally probable; width 0 means all 64 bits. Floating types round inside the
//   interval. An int64 fill reserves two words an element; for widths up to 2^32 it reads only the first half of them.
// bernoulli: 1 with probability first, rounded to a multiple of 2^-32.
// exponential: density rate * exp(-rate x), rate first; a result that rounds to 0 becomes the type's smallest value.
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

// dst = src * mask * scale with the mask of bernoulli(keep). All three arrays begin at the range's first element.
// `mask` has bytes and may be null; `dst` may be `src`.
void dropout(const void *src, void *dst, void *mask, int32_t type, Range range, State state, double keep, double scale);

} // namespace tb::generator
