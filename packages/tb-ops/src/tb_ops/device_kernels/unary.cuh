// Functors of one input, and of none.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

template <int count> struct Inputs {
  static constexpr int inputs = count;
};

struct Fill : Inputs<0> {
  template <class T> __device__ static T call(const T *, const Scalar *s) { return number_of<T>(s[0]); }
};
struct Identity : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return x[0]; }
};
struct Negate : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(-x[0]); }
};
struct Absolute : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return number::fabs(x[0]);
    else
      return x[0] < T(0) ? static_cast<T>(-x[0]) : x[0];
  }
};
struct Sign : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return static_cast<T>((T(0) < x[0]) - (x[0] < T(0)));
  }
};
struct Reciprocal : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return T(1) / x[0]; }
};
struct SquareRoot : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::sqrt(x[0]); }
};
struct InverseSquareRoot : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return T(1) / number::sqrt(x[0]); }
};
struct Exponential : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::exp(x[0]); }
};
struct Exponential2 : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::exp2(x[0]); }
};
struct ExponentialLess1 : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::expm1(x[0]); }
};
struct Logarithm : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::log(x[0]); }
};
struct Logarithm2 : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::log2(x[0]); }
};
struct Logarithm10 : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::log10(x[0]); }
};
struct LogarithmOf1Plus : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::log1p(x[0]); }
};
struct Sine : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::sin(x[0]); }
};
struct Cosine : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::cos(x[0]); }
};
struct Tangent : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::tan(x[0]); }
};
struct ArcTangent : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::atan(x[0]); }
};
struct HyperbolicTangent : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::tanh(x[0]); }
};
struct ErrorFunction : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::erf(x[0]); }
};
struct Sigmoid : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return T(1) / (T(1) + number::exp(-x[0])); }
};
struct Floor : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return number::floor(x[0]);
    else
      return x[0];
  }
};
struct Ceiling : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return number::ceil(x[0]);
    else
      return x[0];
  }
};
struct Truncate : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return number::trunc(x[0]);
    else
      return x[0];
  }
};
struct Round : Inputs<1> { // halves to even
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return number::rint(x[0]);
    else
      return x[0];
  }
};
struct LogicalNot : Inputs<1> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return !x[0]; }
};
struct BitwiseNot : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(~x[0]); }
};
template <> __device__ inline bool BitwiseNot::call<bool>(const bool *x, const Scalar *) { return !x[0]; }
struct IsNan : Inputs<1> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return is_nan(x[0]); }
};
template <bool positive> struct IsInfinity : Inputs<1> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating)
      return x[0] == (positive ? Limits<T>::highest() : Limits<T>::lowest());
    else
      return false;
  }
};
// A NaN in the tensor stays, and one in the bounds becomes the result.
template <class T> __device__ inline T raised_to(T low, T x) { return x < low || is_nan(low) ? low : x; }
template <class T> __device__ inline T lowered_to(T high, T x) { return x > high || is_nan(high) ? high : x; }
struct Clamp : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return lowered_to(number_of<T>(s[1]), raised_to(number_of<T>(s[0]), x[0]));
  }
};
struct ClampBelow : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return raised_to(number_of<T>(s[0]), x[0]);
  }
};
struct ClampAbove : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return lowered_to(number_of<T>(s[0]), x[0]);
  }
};
struct PowerOfNumber : Inputs<1> { // x to the power of the scalar; common powers by products and roots, as in PyTorch
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    if constexpr (Traits<T>::floating) {
      const T power = number_of<T>(s[0]);
      if (power == T(2)) return x[0] * x[0];
      if (power == T(3)) return x[0] * x[0] * x[0];
      if (power == T(0.5)) return number::sqrt(x[0]);
      if (power == T(-0.5)) return T(1) / number::sqrt(x[0]);
      if (power == T(-1)) return T(1) / x[0];
      return number::pow(x[0], power);
    } else {
      T result = T(1), square = x[0];
      for (Long left = s[0].integer; left > 0; left >>= 1, square = static_cast<T>(square * square))
        if (left & 1) result = static_cast<T>(result * square);
      return result;
    }
  }
};

// ---- activations -------------------------------------------------------------------------------------------------

struct Threshold : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[0] <= number_of<T>(s[0]) ? number_of<T>(s[1]) : x[0];
  }
};
struct Gelu : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return x[0] * T(0.5) * (T(1) + number::erf(x[0] * T(0.70710678118654752440)));
  }
};
struct GeluTanh : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T inner = T(0.79788456080286535588) * (x[0] + T(0.044715) * x[0] * x[0] * x[0]);
    return T(0.5) * x[0] * (T(1) + number::tanh(inner));
  }
};
struct Silu : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return x[0] / (T(1) + number::exp(-x[0])); }
};

} // namespace tb::kernels
