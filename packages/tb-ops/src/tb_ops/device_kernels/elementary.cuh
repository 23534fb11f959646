// Logarithm, sine and cosine of random words, bit-identical to those in tb-generator's fills. They do the same IEEE
// operations and fused multiply-adds in the same order as its src/distribution/elementary.h, which explains them. They
// must be compiled without contraction.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

using number::fma;

// Returns c0 + c1 x + c2 x^2 ...
template <class Number> __device__ inline Number polynomial(Number, Number last) { return last; }
template <class Number, class... More>
__device__ inline Number polynomial(Number x, Number first, Number second, More... more) {
  return fma(polynomial(x, second, more...), x, first);
}

__device__ inline float negative_log(unsigned word) {
  const float value = static_cast<float>(static_cast<int>(word)) + 0.5f;
  const unsigned bits = bits_of(value);
  const bool upper = value < 0;
  const float mantissa = float_of((bits & 0x007FFFFFu) | 0x3F000000u);
  const float halvings = upper ? 0.0f : static_cast<float>(static_cast<int>(158 - (bits >> 23)));
  const float f = upper ? value * 0x1p-32f : mantissa - 1.0f;
  const float p = polynomial(f, 0x1.fffecp-2f, -0x1.55a3a8p-2f, 0x1.f30fdap-3f, -0x1.0e050ep-2f, -0x1.72979ep-3f,
                             -0x1.356e6ep+0f, -0x1.a3bc56p+0f, -0x1.6a1fe6p+0f);
  return fma(halvings, 0x1.62e430p-1f, fma(f * f, p, -f));
}

template <class Number> struct Direction {
  Number cosine, sine;
};

__device__ inline Direction<float> direction(unsigned word) {
  const float x = fma(static_cast<float>(static_cast<int>(word << 2)), 0x1p-31f, 0x1p-30f), z = x * x;
  const float sine = x * polynomial(z, 0x1.921fb6p-1f, -0x1.4abbbap-4f, 0x1.465e92p-9f, -0x1.2d9302p-15f);
  const float cosine =
      float_of(bits_of(polynomial(z, 1.0f, -0x1.3bd3a2p-2f, 0x1.03b162p-6f, -0x1.4ea9e6p-12f)) ^ (word & 0x80000000u));
  const bool exchange = (word & 0x40000000u) != 0;
  return {exchange ? sine : cosine, exchange ? cosine : sine};
}

#if !defined(TB_NO_FLOAT64)
__device__ inline double negative_log(Unsigned random) {
  const Unsigned integer = random >> 12 ^ 0x0008000000000000ull;
  const double value = double_of(0x4330000000000000ull | integer) - 0x1.8p52 + 0.5;
  const Unsigned bits = bits_of(value);
  const bool upper = value < 0;
  const double mantissa = double_of((bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull);
  const double halvings = upper ? 0.0 : 1074.0 - static_cast<double>(bits >> 52);
  const double f = upper ? value * 0x1p-52 : mantissa - 1.0;
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double p =
      z * polynomial(z, 0x1.5555555555556p-1, 0x1.999999999955dp-2, 0x1.24924924c1d94p-2, 0x1.c71c71a5de187p-3,
                     0x1.745d1e030da47p-3, 0x1.3b12d5d9485e8p-3, 0x1.112345c23240dp-3, 0x1.dfe2a57f31a82p-4,
                     0x1.c16fb5176dcadp-4, 0x1.1e7bf7b8e5185p-4, 0x1.5141dc6df37e2p-3);
  const double lower = fma(s, half + p, -halvings * 0x1.a39ef35793c76p-33);
  return fma(halvings, 0x1.62e42fee00000p-1, half - lower - f);
}

__device__ inline Direction<double> direction(Unsigned random) {
  const Unsigned angle = (random >> 12 & 0x0003FFFFFFFFFFFFull) ^ 0x0002000000000000ull;
  const double x = fma(double_of(0x4330000000000000ull | angle) - (0x1p52 + 0x1p49), 0x1p-49, 0x1p-50);
  const double z = x * x;
  const double sine =
      x * polynomial(z, 0x1.921fb54442d18p-1, -0x1.4abbce625be53p-4, 0x1.466bc6775aad9p-9, -0x1.32d2cce62abbdp-15,
                     0x1.50783485c2d5ap-22, -0x1.e3074b42c31b0p-30, 0x1.e8eec79bf4a61p-38, -0x1.6c58cc230972ap-46);
  const double cosine =
      double_of(bits_of(polynomial(z, 1.0, -0x1.3bd3cc9be45dep-2, 0x1.03c1f081b5ac4p-6, -0x1.55d3c7e3cbfefp-12,
                                   0x1.e1f5068919cd3p-19, -0x1.a6d1f29f3f5f6p-26, 0x1.f9d3856ddbb9bp-34,
                                   -0x1.b6dd82ab93dcep-42, 0x1.1e2f898d1192ep-50)) ^
                (random & 0x8000000000000000ull));
  const bool exchange = (random & 0x4000000000000000ull) != 0;
  return {exchange ? sine : cosine, exchange ? cosine : sine};
}
#endif

} // namespace tb::kernels
