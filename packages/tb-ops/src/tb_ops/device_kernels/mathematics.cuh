// Mathematical functions, overloaded by the argument's type, in the full precision of each compiler's library.
#pragma once
#include "language.cuh"

namespace tb::kernels::number {

#define TB_UNARY(name)                                                                                                 \
  __device__ inline float name(float x) { return TB_C_FUNCTION(name##f)(x); }                                          \
  __device__ inline double name(double x) { return TB_C_FUNCTION(name)(x); }
#define TB_BINARY(name)                                                                                                \
  __device__ inline float name(float x, float y) { return TB_C_FUNCTION(name##f)(x, y); }                              \
  __device__ inline double name(double x, double y) { return TB_C_FUNCTION(name)(x, y); }
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
__device__ inline float fma(float a, float b, float c) { return TB_C_FUNCTION(fmaf)(a, b, c); }
__device__ inline double fma(double a, double b, double c) { return TB_C_FUNCTION(fma)(a, b, c); }

// a * b + c, rounded once if the device computes that fast.
template <class Number> __device__ inline Number multiply_add(Number a, Number b, Number c) {
  if constexpr (Traits<Number>::floating && tb_fast_fma)
    return fma(a, b, c);
  else
    return static_cast<Number>(a * b + c);
}

} // namespace tb::kernels::number
