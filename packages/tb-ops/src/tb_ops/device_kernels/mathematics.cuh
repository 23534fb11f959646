// Mathematical functions, overloaded by the argument's type, in the full precision of each compiler's library.
#pragma once
#include "language.cuh"

namespace tb::kernels::number {

#define TB_UNARY(name)                                                                                                 \
  __device__ inline float name(float x) { return TB_C_FUNCTION(name##f)(x); }                                          \
  TB_FLOAT64(__device__ inline double name(double x) { return TB_C_FUNCTION(name)(x); })
#define TB_BINARY(name)                                                                                                \
  __device__ inline float name(float x, float y) { return TB_C_FUNCTION(name##f)(x, y); }                              \
  TB_FLOAT64(__device__ inline double name(double x, double y) { return TB_C_FUNCTION(name)(x, y); })
TB_UNARY(exp)
TB_UNARY(exp2)
TB_UNARY(expm1)
TB_UNARY(log)
TB_UNARY(log2)
TB_UNARY(log10)
TB_UNARY(log1p)
TB_UNARY(sqrt)
TB_UNARY(sin)
TB_UNARY(cos)
TB_UNARY(tan)
TB_UNARY(asin)
TB_UNARY(acos)
TB_UNARY(atan)
TB_UNARY(sinh)
TB_UNARY(cosh)
TB_UNARY(tanh)
TB_UNARY(erf)
TB_UNARY(erfc)
TB_UNARY(floor)
TB_UNARY(ceil)
TB_UNARY(trunc)
TB_UNARY(rint)
TB_UNARY(fabs)
TB_BINARY(pow)
TB_BINARY(fmod)
TB_BINARY(atan2)
#undef TB_UNARY
#undef TB_BINARY

// a * b + c, rounded once.
#if defined(TB_NO_FMA)
__device__ inline float fma(float a, float b, float c) { return emulated_fma(a, b, c); }
constexpr bool fast_fma = false;
#else
__device__ inline float fma(float a, float b, float c) { return TB_C_FUNCTION(fmaf)(a, b, c); }
constexpr bool fast_fma = tb_fast_fma;
#endif
TB_FLOAT64(__device__ inline double fma(double a, double b, double c) { return TB_C_FUNCTION(fma)(a, b, c); })

// a * b + c, rounded once if the device computes that fast.
template <class Number> __device__ inline Number multiply_add(Number a, Number b, Number c) {
  if constexpr (Traits<Number>::floating && fast_fma)
    return fma(a, b, c);
  else
    return static_cast<Number>(a * b + c);
}

#if defined(TB_NO_FLOAT64)
__device__ inline FloatPair fabs(FloatPair x) { return x.high < 0 ? -x : x; }
__device__ inline FloatPair log(FloatPair x) {
  const float value = log(x.high), correction = x.low / x.high;
  return is_finite(value) ? exact_sum(value, correction) : FloatPair(value);
}
__device__ inline FloatPair sqrt(FloatPair x) {
  const float root = sqrt(x.high);
  if (!(root > 0) || !is_finite(root)) return root;
  return ordered_sum(root, (x - exact_product(root, root)).high / (2 * root));
}
// Powers of whole numbers have the precision of a pair, as an optimizer's corrections need it; others that of a float.
__device__ inline FloatPair pow(FloatPair x, FloatPair y) {
  if (y.low == 0 && y.high >= 0 && y.high < 0x1p30f && floor(y.high) == y.high) {
    FloatPair result = 1;
    for (unsigned left = static_cast<unsigned>(y.high); left > 0; left >>= 1, x *= x)
      if (left & 1) result *= x;
    return result;
  }
  const float power = pow(x.high, y.high);
  if (!(x.high > 0) || !is_finite(x.high) || !is_finite(power)) return power;
  return power + power * (y.low * log(x.high) + y.high * x.low / x.high);
}
#endif

} // namespace tb::kernels::number
