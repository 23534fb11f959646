// What the kernels that tb-compile generates from PyTorch's graphs call, besides the functors of the core set.
#pragma once
#include "binary.cuh"

namespace tb::kernels {

// ---- numbers of two types, as C++ converts them, but without widening small integers --------------------------------

template <class A, class B> using Common = decltype(true ? A() : B());

template <class Functor, class A> __device__ inline auto unary(A a) {
  const A x[1] = {a};
  return Functor::call(x, static_cast<const Scalar *>(nullptr));
}
template <class Functor, class A, class B> __device__ inline auto binary(A a, B b) {
  const Common<A, B> x[2] = {static_cast<Common<A, B>>(a), static_cast<Common<A, B>>(b)};
  return Functor::call(x, static_cast<const Scalar *>(nullptr));
}

// ---- index expressions ----------------------------------------------------------------------------------------------

// The type of fractions in them.
#if defined(TB_NO_FLOAT64)
using IndexReal = float;
#else
using IndexReal = double;
#endif

// Return the quotient rounded down, and the remainder that has the sign of the divisor, which is not 0.
template <class A, class B> __device__ inline Common<A, B> floor_divide(A a, B b) {
  const Common<A, B> quotient = a / b, rest = a - quotient * b;
  return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}
template <class A, class B> __device__ inline Common<A, B> floor_remainder(A a, B b) {
  return a - floor_divide(a, b) * b;
}
template <class A, class B> __device__ inline Common<A, B> least(A a, B b) { return b < a ? b : a; }
template <class A, class B> __device__ inline Common<A, B> greatest(A a, B b) { return a < b ? b : a; }

// Whether an index is from 0 to size - 1. If it is not, the launch fails, and the caller goes on to its next element.
__device__ inline bool in_range(Long index, Long size) {
  const bool good = index >= 0 && index < size;
  require(good, "index out of range: an index is negative or not below the size of its dimension");
  return good;
}

// ---- bits -----------------------------------------------------------------------------------------------------------

// The number that has the bits of a stored element as another type of that size.
template <class To> struct Bits {
  template <class From> __device__ static To of(From value) { return static_cast<To>(value); } // integers
  __device__ static To of(float value) { return static_cast<To>(bits_of(value)); }
  TB_FLOAT64(__device__ static To of(double value) { return static_cast<To>(bits_of(value)); })
  __device__ static To of(Half value) { return static_cast<To>(value.bits); }
  __device__ static To of(Bfloat value) { return static_cast<To>(value.bits); }
};
template <> struct Bits<float> {
  __device__ static float of(int value) { return float_of(static_cast<unsigned>(value)); }
  __device__ static float of(float value) { return value; }
};
TB_FLOAT64(template <> struct Bits<double> {
  __device__ static double of(Long value) { return double_of(static_cast<Unsigned>(value));
} // namespace tb::kernels
__device__ static double of(double value) { return value; }
}
;)
template <class To> struct NarrowBits {
  __device__ static float of(short value) { return widen(To{static_cast<unsigned short>(value)}); }
  template <class From> __device__ static float of(From value) { return widen(To{value.bits}); }
};
template <> struct Bits<Half> : NarrowBits<Half> {};
template <> struct Bits<Bfloat> : NarrowBits<Bfloat> {};
template <class To, class From> __device__ inline auto reinterpret(From value) { return Bits<To>::of(value); }

// Shifts as PyTorch has them: by a negative number or by all bits nothing is left but the sign.
template <class A, class B> __device__ inline Common<A, B> shift_left(A a, B b) {
  using Number = Common<A, B>;
  if (b < 0 || static_cast<Long>(b) >= static_cast<Long>(8 * sizeof(Number))) return 0;
  return static_cast<Number>(static_cast<Unsigned>(static_cast<Long>(a)) << b);
}
template <class A, class B> __device__ inline Common<A, B> shift_right(A a, B b) {
  using Number = Common<A, B>;
  constexpr int most = 8 * sizeof(Number) - (Limits<Number>::is_signed ? 1 : 0);
  if (b < 0 || static_cast<Long>(b) >= most)
    return Limits<Number>::is_signed ? static_cast<Number>(static_cast<Long>(a) >> 63) : Number(0);
  return static_cast<Number>(a >> b);
}

// ---- functions of floats that the core set lacks --------------------------------------------------------------------

template <class Number> __device__ inline Number not_a_number() {
  return Limits<Number>::highest() - Limits<Number>::highest();
}
__device__ inline bool sign_bit(float x) { return (bits_of(x) >> 31) != 0; }
TB_FLOAT64(__device__ inline bool sign_bit(double x) { return (bits_of(x) >> 63) != 0; })
template <class Number> __device__ inline bool sign_bit(Number x) { return x < Number(0); }

template <class Number> __device__ inline Number with_sign_of(Number size, Number sign) {
  return sign_bit(size) == sign_bit(sign) ? size : -size;
}
struct CopySign : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return with_sign_of(x[0], x[1]); }
};
struct Hypotenuse : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T a = number::fabs(x[0]), b = number::fabs(x[1]), infinity = Limits<T>::highest();
    if (a == infinity || b == infinity) return infinity;
    const T more = a < b ? b : a, ratio = (a < b ? a : b) / more;
    return more == T(0) ? T(0) : more * number::sqrt(T(1) + ratio * ratio);
  }
};
struct InverseHyperbolicSine : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T size = number::fabs(x[0]);
    if (size > T(1e9)) return with_sign_of(number::log(size) + T(0.69314718055994530942), x[0]);
    return with_sign_of(number::log1p(size + size * size / (T(1) + number::sqrt(size * size + T(1)))), x[0]);
  }
};
struct InverseHyperbolicCosine : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T above = x[0] - T(1);
    if (above > T(1e9)) return number::log(x[0]) + T(0.69314718055994530942);
    return number::log1p(above + number::sqrt(above * T(2) + above * above));
  }
};
struct InverseHyperbolicTangent : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return T(0.5) * number::log1p(T(2) * x[0] / (T(1) - x[0]));
  }
};

} // namespace tb::kernels
