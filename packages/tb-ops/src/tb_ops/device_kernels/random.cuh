// Fills from the counter-based generator, Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", 2011). Element i depends on seed, offset and i alone. All fills are bit-identical to tb-generator's
// (its fill/fill.h and distribution/distribution.h say which words an element takes).
#pragma once
#include "elementary.cuh"

namespace tb::kernels {

struct Words {
  unsigned word[4];
};

__device__ inline Words philox(Unsigned counter, unsigned attempt, Unsigned seed) {
  unsigned a = static_cast<unsigned>(counter), b = static_cast<unsigned>(counter >> 32), c = attempt, d = 0;
  unsigned key_0 = static_cast<unsigned>(seed), key_1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; round++) { // constants of the paper's table 2 and section 4
    const Unsigned product_0 = 0xD2511F53ull * a, product_1 = 0xCD9E8D57ull * c;
    a = static_cast<unsigned>(product_1 >> 32) ^ b ^ key_0;
    b = static_cast<unsigned>(product_1);
    c = static_cast<unsigned>(product_0 >> 32) ^ d ^ key_1;
    d = static_cast<unsigned>(product_0);
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

// Return word number `word` of the sequence, and the 64 bits of the two words that element `i` takes.
__device__ inline unsigned word_of(const RandomArguments &a, Unsigned word, unsigned attempt = 0) {
  return philox(a.offset + word / 4, attempt, a.seed).word[word % 4];
}
__device__ inline Unsigned two_words(const RandomArguments &a, Unsigned i, unsigned attempt = 0) {
  const Words words = philox(a.offset + i / 2, attempt, a.seed);
  return static_cast<Unsigned>(words.word[i % 2 * 2 + 1]) << 32 | words.word[i % 2 * 2];
}

// Writes a number in [0, 1) with 24 or 53 random bits.
__device__ inline void fraction(const RandomArguments &a, Unsigned i, float *out) {
  *out = static_cast<float>(static_cast<int>(word_of(a, i) >> 8)) * 0x1p-24f;
}
#if !defined(TB_NO_FLOAT64)
__device__ inline void fraction(const RandomArguments &a, Unsigned i, double *out) {
  *out = static_cast<double>(static_cast<Long>(two_words(a, i) >> 11)) * 0x1p-53;
}
#endif

template <class Stored> __device__ inline void uniform(const RandomArguments &a) {
  using Number = Math<Stored>;
  const Number low = number_of<Number>(a.low), high = number_of<Number>(a.high);
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    Number value;
    fraction(a, static_cast<Unsigned>(i), &value);
    value = value * number_of<Number>(a.width) + number_of<Number>(a.from);
    value = value < low ? low : value;
    put<Stored>(a.output, i, value > high ? high : value);
  }
}

// Returns the random bits of element `i` that elementary.cuh needs.
__device__ inline unsigned bits_of_element(const RandomArguments &a, Unsigned i, float) { return word_of(a, i); }
TB_FLOAT64(__device__ inline Unsigned bits_of_element(const RandomArguments &a, Unsigned i, double) {
  return two_words(a, i);
})

// The method of Box and Muller, in groups of 32 elements. The words of the first half are the radii, and those of the
// second half the directions; the first half gets the cosines, and the second the sines. a.width is the standard
// deviation times the square root of 2.
template <class Stored> __device__ inline void normal(const RandomArguments &a) {
  using Number = Math<Stored>;
  const Number mean = number_of<Number>(a.from), scale = number_of<Number>(a.width);
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Unsigned first = static_cast<Unsigned>(i) & ~16ull;
    const Number radius = number::sqrt(negative_log(bits_of_element(a, first, Number()))) * scale;
    const Direction<Number> towards = direction(bits_of_element(a, first + 16, Number()));
    put<Stored>(a.output, i, number::fma(radius, i & 16 ? towards.sine : towards.cosine, mean));
  }
}

// a.width is the mean; results are at least a.low, the least number above 0.
template <class Stored> __device__ inline void exponential(const RandomArguments &a) {
  using Number = Math<Stored>;
  const Number mean = number_of<Number>(a.width), low = number_of<Number>(a.low);
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Number value = negative_log(bits_of_element(a, static_cast<Unsigned>(i), Number())) * mean;
    put<Stored>(a.output, i, value < low ? low : value);
  }
}

// Writes 1 if the element's word is below the threshold a.range, which is the probability times 2^32.
template <class Stored> __device__ inline void bernoulli(const RandomArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads())
    put<Stored>(a.output, i, word_of(a, static_cast<Unsigned>(i)) < a.range);
}

template <class Stored> __device__ inline void dropout(const RandomArguments &a) {
  const Math<Stored> scale = number_of<Math<Stored>>(a.scale);
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const bool kept = word_of(a, static_cast<Unsigned>(i)) < a.range;
    static_cast<bool *>(a.mask)[i] = kept;
    // Rounded after each product, as two operators would.
    const Stored product = convert<Stored>(at<Stored>(a.input, i) * static_cast<Math<Stored>>(kept));
    put<Stored>(a.output, i, wide(product) * scale);
  }
}

// Writes a.start + number. A floating-point result is rounded and kept from a.low to a.high.
template <class Stored> __device__ inline void put_integer(const RandomArguments &a, Long i, Unsigned number) {
  const Long value = static_cast<Long>(a.start + number);
  if constexpr (Traits<Stored>::floating) {
    using Number = Math<Stored>;
    const Number low = number_of<Number>(a.low), high = number_of<Number>(a.high);
    const Number rounded = static_cast<Number>(value);
    put<Stored>(a.output, i, rounded < low ? low : rounded > high ? high : rounded);
  } else {
    static_cast<Stored *>(a.output)[i] = static_cast<Stored>(value);
  }
}

// Write start plus a random integer in [0, range), unbiased by rejection (Lemire, "Fast random integer generation in an
// interval", 2019). An element takes one word if the range is at most 2^32, else two.
template <class Stored> __device__ inline void small_integers(const RandomArguments &a) {
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Unsigned index = static_cast<Unsigned>(i);
    unsigned word = word_of(a, index);
    if (a.range >> 32 == 0) {
      const unsigned biased = static_cast<unsigned>((1ull << 32) % a.range);
      Unsigned product = static_cast<Unsigned>(word) * a.range;
      for (unsigned attempt = 1; static_cast<unsigned>(product) < biased; attempt++)
        product = static_cast<Unsigned>(word_of(a, index, attempt)) * a.range;
      word = static_cast<unsigned>(product >> 32);
    }
    put_integer<Stored>(a, i, word);
  }
}

template <class Stored> __device__ inline void large_integers(const RandomArguments &a) {
  const Unsigned biased = a.range ? (0 - a.range) % a.range : 0;
  for (Long i = first_element(); i < a.count; i += all_threads()) {
    const Unsigned index = static_cast<Unsigned>(i);
    Unsigned word = two_words(a, index);
    if (a.range) {
      for (unsigned attempt = 1; word * a.range < biased; attempt++) word = two_words(a, index, attempt);
      word = high_product(word, a.range);
    }
    put_integer<Stored>(a, i, word);
  }
}

} // namespace tb::kernels
