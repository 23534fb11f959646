// Conversions of random words to equally probable integers of an interval: the upper half of word * width. Words whose
// lower half is less than 2^n mod width would make some results more probable than others; they are rejected and drawn
// again (Lemire, "Fast random integer generation in an interval", 2019).
#pragma once
#include <algorithm>
#include <cstdint>

#include "distribution/distribution.h"
#include "distribution/scale_to_interval.h"
#include "philox/philox.h"
#include "philox/state.h"

namespace tb::generator {

// The block from which an element takes its words in attempt number `attempt`, counted from 0.
inline philox::Block block_of_attempt(State state, uint64_t block, uint32_t attempt) {
  const uint64_t counter = state.offset + block;
  return philox::block({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), attempt, 0},
                       philox::key_of(state.seed));
}

template <class Bits> struct Added;

// `Out` converts the 32-bit number to the stored type.
template <class Out> struct SmallIntegers {
  using Storage = typename Out::Storage;
  static constexpr uint32_t words = 1;
  uint64_t width; // 1 to 2^32
  State state;
  Scale32 scale;
  Out out;
  Scale64 scale_64 = nullptr; // for int64
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    uint32_t numbers[chunk_words];
    if (width >> 32) {
      std::copy_n(random, count, numbers);
    } else {
      const auto biased = static_cast<uint32_t>((uint64_t{1} << 32) % width);
      const auto factor = static_cast<uint32_t>(width);
      if constexpr (std::is_same_v<Storage, uint32_t>) { // in one pass
        if (!scale(random, dst, count, factor, biased, static_cast<uint32_t>(out.from))) return;
        again(random, numbers, count, element, biased);
      } else if constexpr (std::is_same_v<Out, Added<uint64_t>>) {
        if (!scale_64(random, dst, count, factor, biased, out.from)) return;
        again(random, numbers, count, element, biased);
      } else if (scale(random, numbers, count, factor, biased, 0)) {
        again(random, numbers, count, element, biased);
      }
    }
    for (uint32_t i = 0; i < count; i++) dst[i] = out(numbers[i]);
  }
  void finish() const {
    if (scale_64) finish_streaming();
  }
  [[gnu::noinline]] void again(const uint32_t *random, uint32_t *numbers, uint32_t count, uint64_t element,
                               uint32_t biased) const {
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t index = element + i;
      uint64_t product = uint64_t{random[i]} * width;
      for (uint32_t attempt = 1; static_cast<uint32_t>(product) < biased; attempt++)
        product = uint64_t{block_of_attempt(state, index / 4, attempt)[index % 4]} * width;
      numbers[i] = static_cast<uint32_t>(product >> 32);
    }
  }
};

// The same with 64-bit words. `Out` converts the 64-bit integer to the stored type.
template <class Out> struct LargeIntegers {
  using Storage = typename Out::Storage;
  static constexpr uint32_t words = 2;
  uint64_t width; // 0: 2^64
  State state;
  Out out;
  void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    __extension__ using uint128 = unsigned __int128;
    const uint64_t biased = width ? -width % width : 0;
    for (uint32_t i = 0; i < count; i++) {
      uint64_t word = pair(random, i);
      if (!width) {
        dst[i] = out(word);
        continue;
      }
      const uint64_t index = element + i;
      uint128 product = uint128{word} * width;
      for (uint32_t attempt = 1; static_cast<uint64_t>(product) < biased; attempt++) {
        const philox::Block block = block_of_attempt(state, index / 2, attempt);
        product = uint128{pair(block.data(), index % 2)} * width;
      }
      dst[i] = out(static_cast<uint64_t>(product >> 64));
    }
  }
};

template <class Bits> struct Added {
  using Storage = Bits;
  uint64_t from;
  [[gnu::always_inline]] Storage operator()(uint64_t number) const { return static_cast<Bits>(from + number); }
};

template <class Type> struct AddedFloating {
  using Storage = typename Type::Storage;
  uint64_t from;
  typename Type::Real low, high;
  Storage operator()(uint64_t number) const {
    const auto value = static_cast<typename Type::Real>(static_cast<int64_t>(from + number));
    return Type::store(std::clamp(value, low, high));
  }
};

} // namespace tb::generator
