// What kernels written in AVX-512's intrinsics have in common. Only where __x86_64__ is defined.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

// GCC 12 takes the unused operand of its own intrinsics for a variable that was forgotten.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define TB_AVX512 __attribute__((target("avx512f")))

namespace tb {

constexpr int64_t lanes = 16; // of float

// A mask of the first `count` of them, of none below 0.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, lanes)) - 1);
}

} // namespace tb
