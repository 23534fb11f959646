// The unit of offsets in random sequences.
#pragma once
#include <c10/util/Exception.h>

#include <cstdint>

namespace tb {

// PyTorch counts a sequence in 32-bit words, modulo 2^64, and tb-generator in counters of four words.
inline constexpr uint64_t counters_of_pytorch = uint64_t{1} << 62;

inline int64_t offset_in_words(uint64_t counters) {
  TORCH_CHECK(counters < counters_of_pytorch, "the generator's offset is ", counters,
              " counters of 4 words, and PyTorch's offsets end at 2**64 words. Seed the generator again");
  return static_cast<int64_t>(counters << 2);
}

} // namespace tb
