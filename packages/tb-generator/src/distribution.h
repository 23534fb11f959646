// Random words to elements: a struct for each distribution, whose call turns a chunk's words into elements in loops that
// the compiler vectorises.
//
// convert(random, dst, count, element) makes `count` elements; random[0] is the first word of `element`, and the other
// words of its block may be read too. Inlined, so that it is compiled for its caller's instruction set.
#pragma once
#include <algorithm>
#include <cstdint>

#include "element.h"
#include "elementary.h"
#include "fill.h"
#include "philox.h"

namespace tb::generator {

constexpr uint32_t chunk_words = 256; // 1 KiB of stack
static_assert(chunk_words % (4 * philox::lanes) == 0);

[[gnu::always_inline]] inline uint64_t pair(const uint32_t *words, uint32_t element) {
  return uint64_t{words[2 * element + 1]} << 32 | words[2 * element];
}

// What a floating type's element is made of, as a Real in [0, 1): 24 or 53 bits, all of which the type holds.
template <class Real> [[gnu::always_inline]] inline Real fraction(const uint32_t *words, uint32_t element) {
  if constexpr (sizeof(Real) == 4)
    return static_cast<Real>(static_cast<int32_t>(words[element] >> 8)) * Real(0x1p-24);
  else
    return static_cast<Real>(static_cast<int64_t>(pair(words, element) >> 11)) * Real(0x1p-53);
}

// The random bits of an element, as elementary.h takes them: a word, or 53 bits of two.
template <class Real> [[gnu::always_inline]] inline auto bits(const uint32_t *words, uint32_t element) {
  if constexpr (sizeof(Real) == 4)
    return words[element];
  else
    return pair(words, element) >> 11;
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

template <class Type> struct Normal {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = words_of<Real>;
  Real mean, std;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    Real values[chunk_words / words];
    const uint32_t odd = element % 2; // then its pair begins with the element before
    random -= odd * words;
    for (uint32_t i = 0; i < count + odd; i += 2) {
      const Real radius = std::sqrt(Real(2) * negative_log(bits<Real>(random, i)));
      const Direction<Real> towards = direction(bits<Real>(random, i + 1));
      values[i] = radius * towards.cosine;
      values[i + 1] = radius * towards.sine;
    }
    for (uint32_t i = 0; i < count; i++) dst[i] = Type::store(fused(values[odd + i], std, mean));
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

template <class Bits> struct Bernoulli {
  using Storage = Bits;
  static constexpr uint32_t words = 1;
  uint64_t threshold; // of 2^32
  Bits one;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t) const {
    const auto limit = static_cast<uint32_t>(threshold);
    const Bits yes = one, no = threshold >> 32 ? one : Bits{0};
    // Masks, as the compiler makes branches of ?: here.
    for (uint32_t i = 0; i < count; i++) dst[i] = static_cast<Bits>((mask<Bits>(random[i] < limit) & yes) | no);
  }
};

// The upper half of word * width is the result; the values whose lower half is under 2^32 mod width would make some
// results likelier than others (Lemire, "Fast random integer generation in an interval", 2019).
template <class Bits> struct SmallIntegers {
  using Storage = Bits;
  static constexpr uint32_t words = 1;
  uint32_t from;
  uint64_t width; // 1 to 2^32
  State state;
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    if (width >> 32) {
      for (uint32_t i = 0; i < count; i++) dst[i] = static_cast<Bits>(from + random[i]);
      return;
    }
    const auto factor = static_cast<uint32_t>(width);
    const auto biased = static_cast<uint32_t>((uint64_t{1} << 32) % width);
    uint32_t rejected = 0;
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t product = uint64_t{random[i]} * factor;
      rejected |= static_cast<uint32_t>(product) < biased ? 1 : 0;
      dst[i] = static_cast<Bits>(from + static_cast<uint32_t>(product >> 32));
    }
    if (rejected) again(random, dst, count, element, biased);
  }
  [[gnu::noinline]] void again(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element,
                               uint32_t biased) const {
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t index = element + i, counter = state.offset + index / 4;
      uint64_t product = uint64_t{random[i]} * width;
      for (uint32_t attempt = 1; static_cast<uint32_t>(product) < biased; attempt++) {
        const philox::Block block =
            philox::block({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), attempt, 0},
                          philox::key_of(state.seed));
        product = uint64_t{block[index % 4]} * width;
      }
      dst[i] = static_cast<Bits>(from + static_cast<uint32_t>(product >> 32));
    }
  }
};

// The same with 64-bit words. Out turns the integer into what is stored.
template <class Out> struct LargeIntegers {
  using Storage = typename Out::Storage;
  static constexpr uint32_t words = 2;
  uint64_t from, width; // width 0: 2^64
  State state;
  Out out;
  void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    __extension__ using uint128 = unsigned __int128;
    const uint64_t biased = width ? -width % width : 0;
    for (uint32_t i = 0; i < count; i++) {
      uint64_t word = pair(random, i);
      if (!width) {
        dst[i] = out(static_cast<int64_t>(from + word));
        continue;
      }
      uint128 product = static_cast<uint128>(word) * width;
      const uint64_t index = element + i, counter = state.offset + index / 2;
      for (uint32_t attempt = 1; static_cast<uint64_t>(product) < biased; attempt++) {
        const philox::Block block =
            philox::block({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), attempt, 0},
                          philox::key_of(state.seed));
        word = pair(block.data(), index % 2);
        product = static_cast<uint128>(word) * width;
      }
      dst[i] = out(static_cast<int64_t>(from + static_cast<uint64_t>(product >> 64)));
    }
  }
};

struct AsInt64 {
  using Storage = int64_t;
  int64_t operator()(int64_t value) const { return value; }
};

template <class Type> struct AsFloating {
  using Storage = typename Type::Storage;
  typename Type::Real low, high;
  Storage operator()(int64_t value) const {
    return Type::store(std::clamp(static_cast<typename Type::Real>(value), low, high));
  }
};

} // namespace tb::generator
