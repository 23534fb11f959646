// Runs a distribution over a range, a chunk of words at a time, with the instruction set in use.
#pragma once
#include <algorithm>
#include <cstdint>

#include "distribution/distribution.h"
#include "fill/fill.h"
#include "philox/philox_avx512.h"
#include "processor/instruction_set.h"

namespace tb::generator {

// Inlined, so that the compiler compiles the conversion for the caller's instruction set.
template <class Convert> [[gnu::always_inline]] inline void
fill_range(const Convert &convert, typename Convert::Storage *dst, Range range, State state, philox::Words words) {
  constexpr bool grouped = requires { Convert::group; };
  constexpr uint32_t per_block = 4 / Convert::words, per_chunk = chunk_words / Convert::words;
  constexpr uint32_t per_group = 4 * philox::lanes; // words
  uint32_t start = per_block;
  if constexpr (grouped) start = Convert::group;
  uint32_t buffer[chunk_words];
  auto skip = static_cast<uint32_t>(range.first % start);
  for (uint64_t element = range.first - skip, left = range.count; left > 0; element += per_chunk, skip = 0) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(per_chunk - skip, left));
    const uint32_t used = (skip + count + start - 1) / start * start * Convert::words;
    words(buffer, state.offset + element / per_block, state.seed, (used + per_group - 1) / per_group);
    if constexpr (grouped)
      convert(buffer, dst, skip, count);
    else
      convert(buffer + skip * Convert::words, dst, count, element + skip);
    dst += count;
    left -= count;
  }
  if constexpr (requires { convert.finish(); }) convert.finish();
}

#if TB_X86_SETS
// GCC uses vectors of half the length without this option, which Clang does not have.
#define TB_AVX512_ALONE "avx512f,avx512dq,avx512bw,avx512vl,fma"
#ifdef __clang__
#define TB_AVX512_SETS TB_AVX512_ALONE
#else
#define TB_AVX512_SETS TB_AVX512_ALONE ",prefer-vector-width=512"
#endif

template <class Convert> [[gnu::target("avx2,fma")]] void
fill_avx2(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
  fill_range(convert, dst, range, state, philox::words_avx2);
}

// Makes normal numbers by whole groups until the lower word of the counter would overflow; returns how many it made.
// Pieces are short and inlined: the processor computes the words of one while other units do the arithmetic of the one
// before. This is a separate function because constants leave their registers when more code is inlined beside it.
template <class Convert> [[gnu::noinline, gnu::target(TB_AVX512_SETS)]] uint64_t
fill_groups_avx512(const Convert &convert, float *dst, Range range, State state) {
  constexpr uint32_t registers = 4, words = 32 * registers, blocks = words / 4;
  uint64_t counter = state.offset + range.first / 4;
  const uint64_t pieces =
      std::min<uint64_t>(range.count / words, (UINT32_MAX - static_cast<uint32_t>(counter)) / blocks);
  const philox::Keys keys(state.seed);
  alignas(64) uint32_t random[words];
  for (uint64_t piece = 0; piece < pieces; piece++, counter += blocks, dst += words) {
    philox::blocks_avx512<registers>(random, counter, keys);
    convert.make(random, dst, words / Convert::group);
  }
  return pieces * words;
}

template <class Convert> [[gnu::target(TB_AVX512_SETS)]] void
fill_avx512(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
  if constexpr (requires { Convert::group; } && std::is_same_v<typename Convert::Storage, float>)
    if (range.first % Convert::group == 0) {
      const uint64_t made = fill_groups_avx512(convert, dst, range, state);
      dst += made;
      range = {range.first + made, range.count - made};
    }
  fill_range(convert, dst, range, state, philox::words_avx512);
}
#endif

template <class Convert> void run(const Convert &convert, void *dst, Range range, State state) {
  auto *elements = static_cast<typename Convert::Storage *>(dst);
#if TB_X86_SETS
  switch (instruction_set()) {
  case InstructionSet::avx512:
    return fill_avx512(convert, elements, range, state);
  case InstructionSet::avx2:
    return fill_avx2(convert, elements, range, state);
  default:
    break;
  }
#endif
  fill_range(convert, elements, range, state, philox::words_portable);
}

} // namespace tb::generator
