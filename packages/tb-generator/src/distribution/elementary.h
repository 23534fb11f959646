// Logarithm, exponential, sine and cosine for random words. They use IEEE operations and explicit fused multiply-adds
// only, so results are bit-identical on every processor, instruction set and device. They have no calls, branches or
// tables, so that loops over them vectorise.
//
// tools/checks/polynomials.py derives the coefficients. The bounds below are errors against exact values, in units in the last
// place of the exact value; tests/test_elementary.py measures them.
#pragma once
#include <bit>
#include <cstdint>

namespace tb::generator {

// Measured there for float32 and float64: -log 1.8 and 0.9, cosine 2.4 and 1.5, sine 2.3 and 1.4, exp 0.9 and 1.0. In
// float32 the angle's 30 bits are rounded to 24 first.
constexpr double ulp_negative_log = 2, ulp_cosine = 2.5, ulp_sine = 2.5, ulp_exponential = 1;

[[gnu::always_inline]] inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
[[gnu::always_inline]] inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// c0 + c1 x + c2 x^2 ...
template <class Real> [[gnu::always_inline]] inline Real polynomial(Real, Real last) { return last; }
template <class Real, class... More>
[[gnu::always_inline]] inline Real polynomial(Real x, Real first, Real second, More... more) {
  return fused(polynomial(x, second, more...), x, first);
}

// An integer below 2^52 as a double, made of the bits of 2^52 + integer: not every instruction set converts 64-bit
// integers.
[[gnu::always_inline]] inline double number(uint64_t integer) {
  return std::bit_cast<double>(0x4330000000000000 | integer) - 0x1p52;
}

// -log(u) with u = (word + 1/2) / 2^32. The result is 2^-33 to 22.9, never 0. The word is read as a signed number,
// which is 2^32 less from u = 1/2 on, so that no digits are lost near u = 1.
[[gnu::always_inline]] inline float negative_log(uint32_t word) {
  const float value = static_cast<float>(static_cast<int32_t>(word)) + 0.5f;
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool upper = value < 0;
  const float mantissa = std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F000000u); // 1/2 to 1
  const float halvings =
      upper ? 0.0f : static_cast<float>(static_cast<int32_t>(158 - (bits >> 23))); // u = mantissa * 2^-halvings
  const float f = upper ? value * 0x1p-32f : mantissa - 1.0f;
  const float p = polynomial(f, 0x1.fffecp-2f, -0x1.55a3a8p-2f, 0x1.f30fdap-3f, -0x1.0e050ep-2f, -0x1.72979ep-3f,
                             -0x1.356e6ep+0f, -0x1.a3bc56p+0f, -0x1.6a1fe6p+0f);
  constexpr float ln2 = 0x1.62e430p-1f;
  return fused(halvings, ln2, fused(f * f, p, -f));
}

// -log(mantissa * 2^-halvings), mantissa = 1 + f, -1/2 <= f <= 0.
[[gnu::always_inline]] inline double negative_log(double f, double halvings) {
  // log(1 + f) = 2 atanh(s). The term f is separated so that it enters without rounding.
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double p =
      z * polynomial(z, 0x1.5555555555556p-1, 0x1.999999999955dp-2, 0x1.24924924c1d94p-2, 0x1.c71c71a5de187p-3,
                     0x1.745d1e030da47p-3, 0x1.3b12d5d9485e8p-3, 0x1.112345c23240dp-3, 0x1.dfe2a57f31a82p-4,
                     0x1.c16fb5176dcadp-4, 0x1.1e7bf7b8e5185p-4, 0x1.5141dc6df37e2p-3);
  // The upper part of log(2) ends in zero bits, so that its product with the exponent is exact.
  constexpr double ln2_upper = 0x1.62e42fee00000p-1, ln2_lower = 0x1.a39ef35793c76p-33;
  return fused(halvings, ln2_upper, half - fused(s, half + p, -halvings * ln2_lower) - f);
}

// -log(u) with u = (random + 1/2) / 2^52 of the upper 52 bits. The result is 2^-53 to 36.8, never 0.
[[gnu::always_inline]] inline double negative_log(uint64_t random) {
  // Inverting the upper bit and subtracting 2^51 makes the number signed, as above.
  const double value = std::bit_cast<double>(0x4330000000000000 | (random >> 12 ^ 0x0008000000000000)) - 0x1.8p52 + 0.5;
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool upper = value < 0;
  const double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000);
  const double f = upper ? value * 0x1p-52 : mantissa - 1.0;
  return negative_log(f, upper ? 0.0 : 1074.0 - number(bits >> 52));
}

template <class Real> struct Direction {
  Real cosine, sine;
};

// A direction; all are equally probable. The lower 30 bits, as a signed number, choose one of 2^30 parts of the quarter
// turn around 0, and the angle is the middle of the part, so that neither the cosine nor the sine is ever 0. The two
// upper bits exchange cosine and sine, and negate the cosine.
[[gnu::always_inline]] inline Direction<float> direction(uint32_t word) {
  const float x = fused(static_cast<float>(static_cast<int32_t>(word << 2)), 0x1p-31f, 0x1p-30f), z = x * x;
  const float sine = x * polynomial(z, 0x1.921fb6p-1f, -0x1.4abbbap-4f, 0x1.465e92p-9f, -0x1.2d9302p-15f);
  const float positive = polynomial(z, 1.0f, -0x1.3bd3a2p-2f, 0x1.03b162p-6f, -0x1.4ea9e6p-12f);
  const float cosine = std::bit_cast<float>(std::bit_cast<uint32_t>(positive) ^ (word & 0x80000000u));
  const bool exchange = (word & 0x40000000u) != 0;
  return {exchange ? sine : cosine, exchange ? cosine : sine};
}

// Uses the upper 52 bits: the two uppermost as above, then 50 bits of the angle.
[[gnu::always_inline]] inline Direction<double> direction(uint64_t random) {
  const uint64_t angle = (random >> 12 & 0x0003FFFFFFFFFFFF) ^ 0x0002000000000000; // as above, made unsigned
  const double x = fused(std::bit_cast<double>(0x4330000000000000 | angle) - (0x1p52 + 0x1p49), 0x1p-49, 0x1p-50);
  const double z = x * x;
  const double sine =
      x * polynomial(z, 0x1.921fb54442d18p-1, -0x1.4abbce625be53p-4, 0x1.466bc6775aad9p-9, -0x1.32d2cce62abbdp-15,
                     0x1.50783485c2d5ap-22, -0x1.e3074b42c31b0p-30, 0x1.e8eec79bf4a61p-38, -0x1.6c58cc230972ap-46);
  const double positive =
      polynomial(z, 1.0, -0x1.3bd3cc9be45dep-2, 0x1.03c1f081b5ac4p-6, -0x1.55d3c7e3cbfefp-12, 0x1.e1f5068919cd3p-19,
                 -0x1.a6d1f29f3f5f6p-26, 0x1.f9d3856ddbb9bp-34, -0x1.b6dd82ab93dcep-42, 0x1.1e2f898d1192ep-50);
  const double cosine = std::bit_cast<double>(std::bit_cast<uint64_t>(positive) ^ (random & 0x8000000000000000));
  const bool exchange = (random & 0x4000000000000000) != 0;
  return {exchange ? sine : cosine, exchange ? cosine : sine};
}

// exp(x); infinity or 0 beyond the type's range. The scale is split into two factors, since a single power of two
// cannot reach subnormal results.
[[gnu::always_inline]] inline float exponential(float x) {
  x = x < -105.0f ? -105.0f : x;
  x = x > 90.0f ? 90.0f : x;
  constexpr float round = 0x1.8p23f; // near it the last bit of a float is 1
  const float powers = fused(x, 0x1.715476p+0f, round) - round;
  const float r = fused(-powers, 0x1.7f7d1cp-20f, fused(-powers, 0x1.62e400p-1f, x));
  const float p =
      fused(r * r, polynomial(r, 0x1p-1f, 0x1.55549p-3f, 0x1.55545ep-5f, 0x1.123b46p-7f, 0x1.6db414p-10f), r);
  const auto n = static_cast<int32_t>(powers), half = n >> 1;
  const auto scale = [](int32_t power) { return std::bit_cast<float>((power + 127) << 23); };
  return (p + 1.0f) * scale(half) * scale(n - half);
}

[[gnu::always_inline]] inline double exponential(double x) {
  x = x < -750.0 ? -750.0 : x;
  x = x > 720.0 ? 720.0 : x;
  constexpr double round = 0x1.8p52;
  const double powers = fused(x, 0x1.71547652b82fep+0, round) - round;
  const double r = fused(-powers, 0x1.a39ef35793c76p-33, fused(-powers, 0x1.62e42fee00000p-1, x));
  const double p =
      fused(r * r,
            polynomial(r, 0x1.000000000000bp-1, 0x1.5555555555561p-3, 0x1.5555555550041p-5, 0x1.111111110d646p-7,
                       0x1.6c16c185a373ep-10, 0x1.a01a01bade113p-13, 0x1.a019969e9ce8fp-16, 0x1.71dddfd54b2b2p-19,
                       0x1.28b03ebb68c5cp-22, 0x1.af85789ef7fbfp-26),
            r);
  const auto n = static_cast<int32_t>(powers), half = n >> 1;
  const auto scale = [](int32_t power) { return std::bit_cast<double>(static_cast<uint64_t>(power + 1023) << 52); };
  return (p + 1.0) * scale(half) * scale(n - half);
}

} // namespace tb::generator
