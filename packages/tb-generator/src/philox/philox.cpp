// Runs of Philox blocks: portable, for AVX2 and for AVX-512, with bit-identical results.
#include "philox/philox.h"

#include "philox/philox_avx512.h"

namespace tb::generator::philox {

void words_portable(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups) {
  for (; groups > 0; groups--, counter += lanes, out += 4 * lanes) {
    uint32_t a[lanes], b[lanes], c[lanes], d[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) {
      a[lane] = static_cast<uint32_t>(counter + lane);
      b[lane] = static_cast<uint32_t>((counter + lane) >> 32);
      c[lane] = d[lane] = 0;
    }
    Key key = key_of(seed);
    for (int round = 0; round < rounds; round++) {
      for (uint32_t lane = 0; lane < lanes; lane++) {
        const uint64_t product_0 = uint64_t{multiplier_0} * a[lane], product_1 = uint64_t{multiplier_1} * c[lane];
        a[lane] = static_cast<uint32_t>(product_1 >> 32) ^ b[lane] ^ key[0];
        b[lane] = static_cast<uint32_t>(product_1);
        c[lane] = static_cast<uint32_t>(product_0 >> 32) ^ d[lane] ^ key[1];
        d[lane] = static_cast<uint32_t>(product_0);
      }
      key[0] += step_0;
      key[1] += step_1;
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
      out[4 * lane] = a[lane];
      out[4 * lane + 1] = b[lane];
      out[4 * lane + 2] = c[lane];
      out[4 * lane + 3] = d[lane];
    }
  }
}

#if TB_X86_SETS
// Written by hand because the compiler's version of the loop above is half as fast: it computes the two halves of a
// product separately. Here a word is in the low half of a 64-bit lane, where one multiplication gives both halves. The
// high half is not cleared, since the multiplication does not read it.
[[gnu::target("avx2")]] void words_avx2(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups) {
  constexpr int registers = lanes / 4;
  const __m256i by_0 = _mm256_set1_epi64x(multiplier_0), by_1 = _mm256_set1_epi64x(multiplier_1);
  __m256i key_0[rounds], key_1[rounds];
  const Keys keys(seed);
  for (int round = 0; round < rounds; round++) {
    key_0[round] = _mm256_set1_epi64x(keys.of_round[round][0]);
    key_1[round] = _mm256_set1_epi64x(keys.of_round[round][1]);
  }
  for (; groups > 0; groups--, counter += lanes) {
    __m256i a[registers], b[registers], c[registers], d[registers];
    for (int i = 0; i < registers; i++) {
      a[i] = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(counter + 4 * static_cast<uint64_t>(i))),
                              _mm256_setr_epi64x(0, 1, 2, 3));
      b[i] = _mm256_srli_epi64(a[i], 32);
      c[i] = d[i] = _mm256_setzero_si256();
    }
    for (int round = 0; round < rounds; round++) {
      for (int i = 0; i < registers; i++) {
        const __m256i product_0 = _mm256_mul_epu32(a[i], by_0), product_1 = _mm256_mul_epu32(c[i], by_1);
        a[i] = _mm256_xor_si256(_mm256_srli_epi64(product_1, 32), _mm256_xor_si256(b[i], key_0[round]));
        c[i] = _mm256_xor_si256(_mm256_srli_epi64(product_0, 32), _mm256_xor_si256(d[i], key_1[round]));
        b[i] = product_1;
        d[i] = product_0;
      }
    }
    for (int i = 0; i < registers; i++, out += 16) {
      const __m256i first = _mm256_blend_epi32(a[i], _mm256_slli_epi64(b[i], 32), 0xAA);
      const __m256i second = _mm256_blend_epi32(c[i], _mm256_slli_epi64(d[i], 32), 0xAA);
      const __m256i even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), _mm256_permute2x128_si256(even, odd, 0x20));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
    }
  }
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] void words_avx512(uint32_t *out, uint64_t counter, uint64_t seed,
                                                                        uint32_t groups) {
  const Keys keys(seed);
  while (groups > 0) {
    const uint32_t taken = groups >= 2 ? 2 : 1; // two groups at once hide more of the multiplications' latency
    if (static_cast<uint32_t>(counter) > UINT32_MAX - (2 * lanes - 1)) {
      words_portable(out, counter, seed, taken); // the upper word of the counter is about to step
    } else if (taken == 2) {
      blocks_avx512<4>(out, counter, keys);
    } else {
      blocks_avx512<2>(out, counter, keys);
    }
    groups -= taken;
    counter += uint64_t{lanes} * taken;
    out += 4 * lanes * taken;
  }
}
#else
void words_avx2(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups) {
  words_portable(out, counter, seed, groups);
}
void words_avx512(uint32_t *out, uint64_t counter, uint64_t seed, uint32_t groups) {
  words_portable(out, counter, seed, groups);
}
#endif

} // namespace tb::generator::philox
