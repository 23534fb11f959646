// Conversions of random words to elements. Each distribution is a struct whose call operator converts a chunk of words
// in loops that the compiler vectorises. It is inlined, so that it is compiled for its caller's instruction set.
//
// convert(random, dst, count, element) makes `count` elements; random[0] is the first word of `element`.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "distribution/element.h"
#include "distribution/elementary.h"

namespace tb::generator {

constexpr uint32_t chunk_words = 1024; // 4 KiB of stack

[[gnu::always_inline]] inline uint64_t pair(const uint32_t *words, uint32_t element) {
  return uint64_t{words[2 * element + 1]} << 32 | words[2 * element];
}

// A number in [0, 1) with 24 or 53 random bits, which a Real holds exactly.
template <class Real> [[gnu::always_inline]] inline Real fraction(const uint32_t *words, uint32_t element) {
  if constexpr (sizeof(Real) == 4) {
    return static_cast<Real>(static_cast<int32_t>(words[element] >> 8)) * Real(0x1p-24);
  } else {
    const uint64_t random = pair(words, element);
    return fused(number(random >> 12), 2.0, number(random >> 11 & 1)) * 0x1p-53;
  }
}

// The random bits of an element, as the functions of elementary.h take them.
template <class Real> [[gnu::always_inline]] inline auto bits(const uint32_t *words, uint32_t element) {
  if constexpr (sizeof(Real) == 4)
    return words[element];
  else
    return pair(words, element);
}

template <class Real> constexpr uint32_t words_of = sizeof(Real) / 4;

template <class Type> struct Uniform {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = words_of<Real>;
  Real from, width, low, high;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    for (uint32_t i = 0; i < count; i++) {
      Real value = fraction<Real>(random, i) * width + from;
      value = value < low ? low : value;
      value = value > high ? high : value;
      dst[i] = Type::store(value);
    }
  }
};

// Box and Muller's transform. Elements are made in groups: the words of a group's first half are the radii, those of
// the second half are the directions; the first half gets the cosines, the second half gets the sines. Pairs of
// neighbours instead of halves would have to be taken apart and put together again.
//
// convert(random, dst, skip, count): random[0] is the first word of a group, whose first `skip` elements are left out.
// `random` must hold whole groups.
template <class Type, bool logarithmic> struct Normal {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = words_of<Real>, group = 32, half = group / 2;
  Real mean, scale; // scale: the standard deviation times the square root of 2

  [[gnu::always_inline]] void make(const uint32_t *random, Real *out, uint32_t groups) const {
    for (; groups > 0; groups--, random += group * words, out += group) {
      Real first[half], second[half];
      for (int i = 0; i < static_cast<int>(half); i++) {
        const Direction<Real> towards = direction(bits<Real>(random + half * words, static_cast<uint32_t>(i)));
        const Real radius = std::sqrt(negative_log(bits<Real>(random, static_cast<uint32_t>(i)))) * scale;
        first[i] = fused(radius, towards.cosine, mean);
        second[i] = fused(radius, towards.sine, mean);
        if constexpr (logarithmic) first[i] = exponential(first[i]), second[i] = exponential(second[i]);
      }
      std::copy_n(first, half, out);
      std::copy_n(second, half, out + half);
    }
  }

  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t skip, uint32_t count) const {
    if constexpr (std::is_same_v<Storage, Real>)
      if (skip == 0 && count % group == 0) return make(random, dst, count / group);
    Real values[chunk_words / words];
    make(random, values, (skip + count + group - 1) / group);
    for (uint32_t i = 0; i < count; i++) dst[i] = Type::store(values[skip + i]);
  }
};

template <class Type> struct Exponential {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = words_of<Real>;
  Real mean;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    for (uint32_t i = 0; i < count; i++) {
      const Real value = negative_log(bits<Real>(random, i)) * mean;
      dst[i] = Type::store(value < Type::smallest ? Type::smallest : value);
    }
  }
};

template <class Type> struct Cauchy {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = words_of<Real>;
  Real median, sigma;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    for (uint32_t i = 0; i < count; i++) {
      const Direction<Real> towards = direction(bits<Real>(random, i));
      dst[i] = Type::store(fused(sigma, towards.sine / towards.cosine, median));
    }
  }
};

// Exponential numbers, rounded up. `Out` converts the number to the stored type.
template <class Out> struct Geometric {
  using Storage = typename Out::Storage;
  static constexpr uint32_t words = 2;
  double mean; // the mean of the exponential numbers
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    for (uint32_t i = 0; i < count; i++) {
      const double trials = std::ceil(negative_log(pair(random, i)) * mean);
      dst[i] = Out::store(trials < 1.0 ? 1.0 : trials);
    }
  }
};

template <class Type> struct Rounded {
  using Storage = typename Type::Storage;
  [[gnu::always_inline]] static Storage store(double value) {
    return Type::store(static_cast<typename Type::Real>(value));
  }
};

template <class Integer> struct Saturated {
  using Storage = Integer;
  [[gnu::always_inline]] static Storage store(double value) {
    constexpr Integer most = std::numeric_limits<Integer>::max();
    constexpr double beyond = sizeof(Integer) == 8 ? 0x1p63 : static_cast<double>(most) + 1;
    const auto inside = static_cast<Integer>(value < beyond ? value : 1.0);
    return value < beyond ? inside : most;
  }
};

template <class Bits> struct Bernoulli {
  using Storage = Bits;
  static constexpr uint32_t words = 1;
  uint64_t threshold; // the probability times 2^32
  Bits one;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    const auto limit = static_cast<uint32_t>(threshold);
    const Bits yes = one, no = threshold >> 32 ? one : Bits{0};
    // Masks instead of ?:, for which the compiler generates branches here.
    for (uint32_t i = 0; i < count; i++) dst[i] = static_cast<Bits>((mask<Bits>(random[i] < limit) & yes) | no);
  }
};

// Draws the elements of Bernoulli<uint8_t> with this threshold, and multiplies src by them and by `scale`.
template <class Type> struct Dropout {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = 1;
  const Storage *src;
  uint8_t *kept; // may be null
  uint64_t first, threshold;
  Real scale;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    // Local arrays let the compiler vectorise: it must assume that src, dst and kept overlap.
    Storage values[chunk_words];
    uint8_t yes[chunk_words];
    std::copy_n(src + (element - first), count, values);
    const auto limit = static_cast<uint32_t>(threshold);
    const uint32_t all = threshold >> 32 ? 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t one = (mask<uint32_t>(random[i] < limit) & 1) | all;
      values[i] = Type::store(Type::load(values[i]) * static_cast<Real>(static_cast<int32_t>(one)) * scale);
      yes[i] = static_cast<uint8_t>(one);
    }
    std::copy_n(values, count, dst);
    if (kept) std::copy_n(yes, count, kept + (element - first));
  }
};

} // namespace tb::generator
