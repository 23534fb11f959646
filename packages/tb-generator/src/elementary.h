// Logarithm, sine and cosine of random words, built of IEEE operations and explicit fused multiply-adds alone: the same
// bits on every processor, instruction set and device. No calls, branches or tables, so that loops vectorise.
//
// Coefficients: tools/polynomials.py. Largest errors against exact values of the same word, as measured by
// tests/test_elementary.py, in units in the last place: -log 2.3, cosine and sine 1.4.
#pragma once
#include <bit>
#include <cstdint>

namespace tb::generator {

// Documented bounds, which the test holds the functions to.
constexpr double ulp_negative_log = 2.5, ulp_cosine = 1.5, ulp_sine = 1.5;

[[gnu::always_inline]] inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
[[gnu::always_inline]] inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// c0 + c1 x + c2 x^2 ...
template <class Real> [[gnu::always_inline]] inline Real polynomial(Real, Real last) { return last; }
template <class Real, class... More>
[[gnu::always_inline]] inline Real polynomial(Real x, Real first, Real second, More... more) {
  return fused(polynomial(x, second, more...), x, first);
}

// -log((word + 1/2) / 2^32): in 2^-33 to 22.9, never 0. Near 1 the complement of the word still has its digits.
[[gnu::always_inline]] inline float negative_log(uint32_t word) {
  constexpr uint32_t two_thirds = 0x3F2AAAAB;
  const float value = static_cast<float>(word) + 0.5f;
  const float complement = (static_cast<float>(~word) + 0.5f) * -0x1p-32f;
  const auto bits = std::bit_cast<uint32_t>(value);
  // value = mantissa * 2^exponent, 2/3 <= mantissa < 4/3
  const int32_t exponent = static_cast<int32_t>(bits - two_thirds) >> 23;
  const float mantissa = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23));
  const float f = exponent == 32 ? complement : mantissa - 1.0f;
  const float p = polynomial(f, -0x1p-1f, 0x1.555558p-2f, -0x1.fffe28p-3f, 0x1.99968cp-3f, -0x1.55b1d0p-3f,
                             0x1.250bbap-3f, -0x1.f1720cp-4f, 0x1.b6b050p-4f, -0x1.0af508p-3f, 0x1.f22204p-4f);
  constexpr float ln2 = 0x1.62e430p-1f;
  return -fused(static_cast<float>(exponent - 32), ln2, fused(f * f, p, f));
}

// -log((bits + 1/2) / 2^53), 0 <= bits < 2^53: in 2^-54 to 37.5, never 0.
[[gnu::always_inline]] inline double negative_log(uint64_t random) {
  constexpr uint64_t two_thirds = 0x3FE5555555555555, all = (uint64_t{1} << 53) - 1;
  const double value = static_cast<double>(static_cast<int64_t>(random)) + 0.5;
  const double complement = (static_cast<double>(static_cast<int64_t>(all - random)) + 0.5) * -0x1p-53;
  const auto bits = std::bit_cast<uint64_t>(value);
  const int64_t exponent = static_cast<int64_t>(bits - two_thirds) >> 52;
  const double mantissa = std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  const double f = exponent == 53 ? complement : mantissa - 1.0;
  // log(1 + f) = 2 atanh(s), with f taken out so that it enters unrounded
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double p =
      z * polynomial(z, 0x1.555555555554fp-1, 0x1.999999999c0f7p-2, 0x1.24924921ec0e0p-2, 0x1.c71c7488d89c7p-3,
                     0x1.745c4c7af55b1p-3, 0x1.3b358bad9d720p-3, 0x1.0dcf13c39bdbep-3, 0x1.1b69ec7ee0326p-3);
  // The upper part of log(2) has zeros below, so that its product with the exponent is exact.
  constexpr double ln2_upper = 0x1.62e42fee00000p-1, ln2_lower = 0x1.a39ef35793c76p-33;
  const auto powers = static_cast<double>(static_cast<int32_t>(exponent) - 53);
  return -fused(powers, ln2_upper, f - (half - fused(s, half + p, powers * ln2_lower)));
}

template <class Real> struct Direction {
  Real cosine, sine;
};

// Cosine and sine of 2 pi word / 2^32. The two upper bits are the quadrant, so the reduction is exact.
[[gnu::always_inline]] inline Direction<float> direction(uint32_t word) {
  const uint32_t quadrant = (word + 0x20000000u) >> 30;
  const float x = static_cast<float>(static_cast<int32_t>(word - (quadrant << 30))) * 0x1p-30f; // |x| <= 1/2 quadrant
  const float z = x * x;
  // pi / 2 is the constant of the product and the first coefficient together.
  const float s =
      fused(x, 0x1.921fb6p+0f, x * polynomial(z, -0x1.a0f36cp-25f, -0x1.4abbbap-1f, 0x1.465ec6p-4f, -0x1.2d9bb8p-8f));
  const float c = fused(z, polynomial(z, -0x1.3bd3ccp+0f, 0x1.03c1dep-2f, -0x1.55c664p-6f, 0x1.d9f7bap-11f), 1.0f);
  const auto s_bits = std::bit_cast<uint32_t>(s), c_bits = std::bit_cast<uint32_t>(c);
  const uint32_t swap = 0u - (quadrant & 1);
  const uint32_t cosine = (c_bits & ~swap) | (s_bits & swap), sine = (s_bits & ~swap) | (c_bits & swap);
  return {std::bit_cast<float>(cosine ^ ((quadrant + 1) & 2) << 30), std::bit_cast<float>(sine ^ (quadrant & 2) << 30)};
}

// Cosine and sine of 2 pi bits / 2^53, 0 <= bits < 2^53.
[[gnu::always_inline]] inline Direction<double> direction(uint64_t random) {
  const uint64_t quadrant = (random + (uint64_t{1} << 50)) >> 51; // 0 to 4
  const double x = static_cast<double>(static_cast<int64_t>(random - (quadrant << 51))) * 0x1p-51;
  const double z = x * x;
  const double s = fused(x, 0x1.921fb54442d18p+0,
                         x * polynomial(z, 0x1.1a5f1448b8113p-54, -0x1.4abbce625be53p-1, 0x1.466bc6775aad9p-4,
                                        -0x1.32d2cce62ac24p-8, 0x1.50783485cc008p-13, -0x1.e3074b502ddb6p-19,
                                        0x1.e8eed1598c043p-25, -0x1.6c5b938774395p-31));
  const double c =
      fused(z,
            polynomial(z, -0x1.3bd3cc9be45dep+0, 0x1.03c1f081b5ac4p-2, -0x1.55d3c7e3cbfefp-6, 0x1.e1f5068919cd3p-11,
                       -0x1.a6d1f29f3f5f6p-16, 0x1.f9d3856ddbb9bp-22, -0x1.b6dd82ab93dcep-28, 0x1.1e2f898d1192ep-34),
            1.0);
  const auto s_bits = std::bit_cast<uint64_t>(s), c_bits = std::bit_cast<uint64_t>(c);
  const uint64_t swap = uint64_t{0} - (quadrant & 1);
  const uint64_t cosine = (c_bits & ~swap) | (s_bits & swap), sine = (s_bits & ~swap) | (c_bits & swap);
  return {std::bit_cast<double>(cosine ^ ((quadrant + 1) & 2) << 62),
          std::bit_cast<double>(sine ^ (quadrant & 2) << 62)};
}

} // namespace tb::generator
