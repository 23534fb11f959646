// Functors of two and three inputs.
#pragma once
#include "unary.cuh"

namespace tb::kernels {

struct Add : Inputs<2> { // x + scalar * y
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return static_cast<T>(x[0] + number_of<T>(s[0]) * x[1]);
  }
};
template <> __device__ inline bool Add::call<bool>(const bool *x, const Scalar *s) {
  return x[0] || (s[0].integer && x[1]);
}
struct Subtract : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return static_cast<T>(x[0] - number_of<T>(s[0]) * x[1]);
  }
};
struct Multiply : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(x[0] * x[1]); }
};
struct Divide : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(x[0] / x[1]); }
};
// Whether the divisor is not an integer 0, by which a division would end the program on the host. If it is, the launch
// fails.
template <class T> __device__ inline bool divisible(T divisor) {
  if constexpr (Traits<T>::floating) return true;
  require(divisor != T(0), "ZeroDivisionError", invalid_value);
  return divisor != T(0);
}
struct DivideTruncate : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if (!divisible(x[1])) return T(0);
    if constexpr (Traits<T>::floating)
      return number::trunc(x[0] / x[1]);
    else
      return static_cast<T>(x[0] / x[1]);
  }
};
struct Remainder : Inputs<2> { // with the sign of the divisor
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if (!divisible(x[1])) return T(0);
    if constexpr (Traits<T>::floating) {
      const T rest = number::fmod(x[0], x[1]);
      return rest != T(0) && (x[1] < T(0)) != (rest < T(0)) ? rest + x[1] : rest;
    } else {
      const T rest = static_cast<T>(x[0] % x[1]);
      return rest != T(0) && (rest < T(0)) != (x[1] < T(0)) ? static_cast<T>(rest + x[1]) : rest;
    }
  }
};
struct DivideFloor : Inputs<2> { // rounds down, as Python does
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    if (!divisible(x[1])) return T(0);
    if constexpr (Traits<T>::floating) {
      if (x[1] == T(0)) return x[0] / x[1];
      const T rest = number::fmod(x[0], x[1]);
      T quotient = (x[0] - rest) / x[1];
      if (rest != T(0) && (x[1] < T(0)) != (rest < T(0))) quotient -= T(1);
      if (quotient == T(0)) return x[0] / x[1] < T(0) ? -T(0) : T(0);
      const T whole = number::floor(quotient);
      return quotient - whole > T(0.5) ? whole + T(1) : whole;
    } else {
      return static_cast<T>((x[0] - Remainder::call(x, s)) / x[1]);
    }
  }
};
struct Fmod : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if (!divisible(x[1])) return T(0);
    if constexpr (Traits<T>::floating)
      return number::fmod(x[0], x[1]);
    else
      return static_cast<T>(x[0] % x[1]);
  }
};
struct Power : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if constexpr (Traits<T>::floating) {
      return number::pow(x[0], x[1]);
    } else {
      if (x[1] < T(0)) return x[0] == T(1) ? T(1) : x[0] != T(-1) ? T(0) : x[1] % T(2) ? T(-1) : T(1);
      const Scalar power{0, static_cast<Long>(x[1])};
      return PowerOfNumber::call(x, &power);
    }
  }
};
struct Maximum : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return is_nan(x[0]) ? x[0] : is_nan(x[1]) || x[0] < x[1] ? x[1] : x[0];
  }
};
struct Minimum : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return is_nan(x[0]) ? x[0] : is_nan(x[1]) || x[1] < x[0] ? x[1] : x[0];
  }
};
struct ArcTangent2 : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::atan2(x[0], x[1]); }
};

// ---- comparisons and logic ---------------------------------------------------------------------------------------

struct Equal : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] == x[1]; }
};
struct NotEqual : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] != x[1]; }
};
struct Less : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] < x[1]; }
};
struct LessOrEqual : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] <= x[1]; }
};
struct Greater : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] > x[1]; }
};
struct GreaterOrEqual : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] >= x[1]; }
};
struct LogicalAnd : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] && x[1]; }
};
struct LogicalOr : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return x[0] || x[1]; }
};
struct LogicalXor : Inputs<2> {
  template <class T> __device__ static bool call(const T *x, const Scalar *) { return !x[0] != !x[1]; }
};
struct BitwiseAnd : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(x[0] & x[1]); }
};
struct BitwiseOr : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(x[0] | x[1]); }
};
struct BitwiseXor : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return static_cast<T>(x[0] ^ x[1]); }
};

// ---- gradients: the gradient of the output first ------------------------------------------------------------------

struct TanhBackward : Inputs<2> { // gradient, output
  template <class T> __device__ static T call(const T *x, const Scalar *) { return x[0] * (T(1) - x[1] * x[1]); }
};
struct SigmoidBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return x[0] * (T(1) - x[1]) * x[1]; }
};
struct ThresholdBackward : Inputs<2> { // PyTorch's iterator has the input first
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[0] <= number_of<T>(s[0]) ? T(0) : x[1];
  }
};
struct GeluBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T below = T(0.5) * (T(1) + number::erf(x[1] * T(0.70710678118654752440)));
    const T density = number::exp(T(-0.5) * x[1] * x[1]) * T(0.39894228040143267794);
    return x[0] * (below + x[1] * density);
  }
};
struct GeluTanhBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T v = x[1], scale = T(0.79788456080286535588), cube = T(0.044715);
    const T t = number::tanh(scale * (v + cube * v * v * v));
    const T inner = scale * (T(1) + T(3) * cube * v * v);
    return x[0] * (T(0.5) * (T(1) + t) + T(0.5) * v * (T(1) - t * t) * inner);
  }
};
struct SiluBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T s = T(1) / (T(1) + number::exp(-x[1]));
    return x[0] * s * (T(1) + x[1] * (T(1) - s));
  }
};
struct DropoutBackward : Inputs<2> { // gradient, mask
  template <class T> __device__ static T call(const T *x, const Scalar *s) { return x[0] * x[1] * number_of<T>(s[0]); }
};
struct SquaredError : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return (x[0] - x[1]) * (x[0] - x[1]); }
};
struct SquaredErrorBackward : Inputs<3> { // input, target, gradient
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return number_of<T>(s[0]) * (x[0] - x[1]) * x[2];
  }
};

// ---- three inputs ------------------------------------------------------------------------------------------------

struct Where : Inputs<3> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return x[0] != T(0) ? x[1] : x[2]; }
};
struct AddProduct : Inputs<3> { // x + scalar * y * z
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return static_cast<T>(x[0] + number_of<T>(s[0]) * x[1] * x[2]);
  }
};
struct AddQuotient : Inputs<3> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return static_cast<T>(x[0] + number_of<T>(s[0]) * x[1] / x[2]);
  }
};
// Interpolates from the nearer end, so that weight 1 returns the end itself.
template <class T> __device__ inline T interpolate(T start, T end, T weight) {
  return number::fabs(weight) < T(0.5) ? start + weight * (end - start) : end - (end - start) * (T(1) - weight);
}
struct Interpolate : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return interpolate(x[0], x[1], number_of<T>(s[0]));
  }
};
struct InterpolateTensor : Inputs<3> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return interpolate(x[0], x[1], x[2]); }
};
struct ClampTensor : Inputs<3> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    const T raised[2] = {Maximum::call(x, s), x[2]};
    return Minimum::call(raised, s);
  }
};
struct MaskedFill : Inputs<2> { // returns x, or the scalar if the mask is set
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[1] != T(0) ? number_of<T>(s[0]) : x[0];
  }
};

} // namespace tb::kernels
