// Random indices: permutations, and samples with given weights. Every machine draws the same numbers.
#pragma once
#include <cstdint>

#include "fill/fill.h"

namespace tb::generator {

// Writes 0 to count - 1 in the order of `count` random 64-bit words; equal words keep their order. Takes 2 * count
// words.
void permutation(int64_t *dst, uint64_t count, State state);

// Draws classes with probabilities in proportion to their weights, which must be finite, at least 0 and not all 0. With
// replacement it takes 2 words a sample. Without, it takes 2 words a class, and `samples` may not exceed the number of
// weights above 0.
void multinomial(int64_t *dst, uint64_t samples, const double *weights, uint64_t classes, bool replacement,
                 State state);

} // namespace tb::generator
