// Runs a distribution over a range, a chunk of words at a time, with the instruction set in use.
#pragma once
#include <algorithm>
#include <cstdint>

#include "distribution.h"
#include "fill.h"
#include "instruction_set.h"
#include "philox.h"

namespace tb::generator {

// Inlined, so that the conversion is compiled for the caller's instruction set.
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
template <class Convert> [[gnu::target("avx2,fma")]] void
fill_avx2(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
  fill_range(convert, dst, range, state, philox::words_avx2);
}
template <class Convert> [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")]] void
fill_avx512(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
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
