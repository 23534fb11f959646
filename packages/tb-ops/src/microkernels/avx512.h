// Vectors of 16 floats by AVX-512 intrinsics. Include it only where __x86_64__ is defined.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

// GCC 12 warns of uninitialized variables inside its own intrinsics.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define TB_AVX512 __attribute__((target("avx512f")))
#define TB_INLINE TB_AVX512 __attribute__((always_inline)) inline

namespace tb::ops::microkernels {

using Vector = __m512;
constexpr int64_t lanes = 16;

// A mask of the first `count` lanes: none if `count` is negative, all if it is above 16.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, lanes)) - 1);
}

TB_INLINE Vector all(float x) { return _mm512_set1_ps(x); }
TB_INLINE Vector load(const float *from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
TB_INLINE void store(float *to, __mmask16 mask, Vector x) { _mm512_mask_storeu_ps(to, mask, x); }
TB_INLINE Vector fused(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

} // namespace tb::ops::microkernels
