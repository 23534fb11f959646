// arithmetic.h -- the functions of the operators in pointwise.inc. Integers wrap, as on the hardware.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace sim {

// Computes with unsigned integers, because signed overflow is undefined in C++.
template <class T, class F> T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  else
    return f(a, b);
}
template <class T> T add(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x + y; });
}
template <class T> T subtract(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x - y; });
}
template <class T> T multiply(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x * y; });
}

template <class T> T sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
template <class T> T larger(T a, T b) { return a != a || a > b ? a : b; } // NaN if either operand is NaN
template <class T> T smaller(T a, T b) { return a != a || a < b ? a : b; }
template <class T> T between(T start, T end, T weight) {
  return weight < T(0.5) ? start + weight * (end - start) : end - (end - start) * (T(1) - weight);
}

template <class T> bool infinite(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isinf(x);
}

// Rounds; integers need no rounding.
template <class T, class F> T whole(T x, F round) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return round(x);
}

template <class T> T modulo(T a, T b) { // has a's sign
  if constexpr (std::is_integral_v<T>)
    return b == 0 || b == -1 ? T(0) : a % b; // the hardware does not trap on division by zero
  else
    return std::fmod(a, b);
}
template <class T> T floored_remainder(T a, T b) { // has b's sign
  const T rest = modulo(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}

// mode: 0 is exact, 1 rounds towards zero, 2 rounds down.
template <class T> T divide(T a, T b, T mode) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T(0);
    if (b == -1) return subtract(T(0), a);
    const T quotient = a / b;
    return mode == T(2) && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  } else {
    if (mode == T(0) || b == T(0)) return a / b;
    if (mode == T(1)) return std::trunc(a / b);
    const T exact = (a - floored_remainder(a, b)) / b; // an integer except for rounding errors
    return exact == T(0) ? std::copysign(T(0), a / b) : std::nearbyint(exact);
  }
}

template <class T> T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if (exponent < 0) return base == 1 ? T(1) : base == -1 ? (exponent % 2 ? T(-1) : T(1)) : T(0);
    T out = 1;
    for (; exponent; exponent >>= 1, base = multiply(base, base))
      if (exponent & 1) out = multiply(out, base);
    return out;
  } else
    return exponent == T(2) ? base * base : std::pow(base, exponent);
}

template <class T> T gelu(T x, bool by_tanh) {
  if (by_tanh) return T(0.5) * x * (T(1) + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
  return T(0.5) * x * (T(1) + std::erf(x * T(0.7071067811865476)));
}
template <class T> T gelu_slope(T x, bool by_tanh) {
  if (!by_tanh)
    return T(0.5) * (T(1) + std::erf(x * T(0.7071067811865476))) +
           x * T(0.3989422804014327) * std::exp(T(-0.5) * x * x);
  const T inner = std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x));
  const T inner_slope = (T(1) - inner * inner) * T(0.7978845608028654) * (T(1) + T(0.134145) * x * x);
  return T(0.5) * (T(1) + inner) + T(0.5) * x * inner_slope;
}

} // namespace sim
