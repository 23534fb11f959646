// Philox blocks with AVX-512, inlined into the loops that use the words.
#pragma once
#include <cstdint>

#include "philox/philox.h"
#include "processor/instruction_set.h"

#if TB_X86_SETS
#include <immintrin.h>
// GCC's own header reads registers that it leaves undefined on purpose, and GCC 12 warns about it.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tb::generator::philox {

struct Keys {
  Key of_round[rounds];
  explicit Keys(uint64_t seed) {
    Key key = key_of(seed);
    for (Key &round : of_round) {
      round = key;
      key[0] += step_0;
      key[1] += step_1;
    }
  }
};

// As words_avx2, with eight blocks a register; ternary logic does both exclusive ors at once. Three of a counter's
// words are equal in all lanes, which makes half of the first two rounds constant. The lower word of the counter must
// therefore not overflow.
template <int registers> [[gnu::always_inline, gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] inline void
blocks_avx512(uint32_t *out, uint64_t counter, const Keys &keys) {
  constexpr int exclusive_or = 0x96;
  const __m512i by_0 = _mm512_set1_epi64(multiplier_0), by_1 = _mm512_set1_epi64(multiplier_1);
  const __m512i places = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  // Two registers hold a half of each block: these permutations take out the blocks 0 to 3 and 4 to 7.
  const __m512i lower = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i upper = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  __m512i a[registers], b[registers], c[registers], d[registers];

  const auto high = static_cast<uint32_t>(counter >> 32);
  const uint64_t product_0 = uint64_t{multiplier_0} * (high ^ keys.of_round[0][0]);
  const __m512i key_1 = _mm512_set1_epi64(keys.of_round[0][1]), next_0 = _mm512_set1_epi64(keys.of_round[1][0]);
  const __m512i next_1 = _mm512_set1_epi64(static_cast<uint32_t>(product_0 >> 32) ^ keys.of_round[1][1]);
  const __m512i last = _mm512_set1_epi64(static_cast<uint32_t>(product_0));
  for (int i = 0; i < registers; i++) {
    const __m512i low =
        _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(counter + 8 * static_cast<uint64_t>(i))), places);
    const __m512i first = _mm512_mul_epu32(low, by_0);
    c[i] = _mm512_xor_si512(_mm512_srli_epi64(first, 32), key_1);
    b[i] = _mm512_mul_epu32(c[i], by_1);
    a[i] = _mm512_xor_si512(_mm512_srli_epi64(b[i], 32), next_0);
    c[i] = _mm512_xor_si512(first, next_1);
    d[i] = last;
  }
#pragma GCC unroll 8
  for (int round = 2; round < rounds; round++) {
    const __m512i key_0 = _mm512_set1_epi64(keys.of_round[round][0]);
    const __m512i key_1 = _mm512_set1_epi64(keys.of_round[round][1]);
#pragma GCC unroll 4
    for (int i = 0; i < registers; i++) {
      const __m512i product_0 = _mm512_mul_epu32(a[i], by_0), product_1 = _mm512_mul_epu32(c[i], by_1);
      a[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product_1, 32), b[i], key_0, exclusive_or);
      c[i] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product_0, 32), d[i], key_1, exclusive_or);
      b[i] = product_1;
      d[i] = product_0;
    }
  }
  for (int i = 0; i < registers; i++, out += 32) {
    constexpr __mmask16 odd = 0xAAAA;
    constexpr auto even_twice = static_cast<_MM_PERM_ENUM>(0xA0);
    const __m512i first = _mm512_mask_shuffle_epi32(a[i], odd, b[i], even_twice);
    const __m512i second = _mm512_mask_shuffle_epi32(c[i], odd, d[i], even_twice);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(first, lower, second));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi64(first, upper, second));
  }
}

} // namespace tb::generator::philox
#endif
