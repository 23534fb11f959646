// Numbers of two floats, for sums on devices without 64-bit floats. The algorithms are those of Dekker ("A floating-point
// technique for extending the available precision", 1971), and of Hida, Li and Bailey ("Algorithms for quad-double
// precision floating point arithmetic", 2001). They must be compiled without contraction and reordering.
#pragma once

namespace tb::kernels {

__device__ inline bool is_finite(float x) { return x - x == 0; }

// The number high + low, of 48 bits. `high` is that sum rounded to a float; `low` is 0 if `high` is infinite or no
// number. The range is that of a float. It is plain data, and its constructor does nothing.
struct FloatPair {
  float high, low;
  FloatPair() = default;
  __device__ FloatPair(float value) : high(value), low(0) {}
  __device__ FloatPair(Long value) // exact up to 2^48, and meant for less than 2^62
      : high(static_cast<float>(value)), low(static_cast<float>(value - static_cast<Long>(high))) {}
  __device__ FloatPair(int value) : FloatPair(static_cast<Long>(value)) {}
  __device__ FloatPair(float high, float low) : high(high), low(is_finite(high) ? low : 0) {}

  __device__ explicit operator float() const { return high; }
  __device__ explicit operator bool() const { return high != 0; }
  __device__ explicit operator Long() const { return static_cast<Long>(high) + static_cast<Long>(low); }
  __device__ FloatPair operator-() const { return {-high, -low}; }
};

// Returns a + b exactly, if no intermediate result overflows. ordered_sum requires |a| >= |b|.
__device__ inline FloatPair ordered_sum(float a, float b) {
  const float sum = a + b;
  return {sum, b - (sum - a)};
}
__device__ inline FloatPair exact_sum(float a, float b) {
  const float sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// Returns a * b exactly, if nothing overflows or underflows.
__device__ inline FloatPair exact_product(float a, float b) {
  const float product = a * b;
#if defined(TB_NO_FMA)
  const float a_scaled = 4097.0f * a, b_scaled = 4097.0f * b; // 2^12 + 1 splits 24 bits into halves
  const float a_high = a_scaled - (a_scaled - a), b_high = b_scaled - (b_scaled - b);
  const float a_low = a - a_high, b_low = b - b_high;
  const float rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
  return {product, is_finite(rest) ? rest : 0};
#else
  return {product, TB_C_FUNCTION(fmaf)(a, b, -product)};
#endif
}

__device__ inline FloatPair operator+(FloatPair a, FloatPair b) {
  const FloatPair high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
  const FloatPair sum = ordered_sum(high.high, high.low + low.high);
  return ordered_sum(sum.high, sum.low + low.low);
}
__device__ inline FloatPair operator-(FloatPair a, FloatPair b) { return a + -b; }
__device__ inline FloatPair operator*(FloatPair a, FloatPair b) {
  const FloatPair product = exact_product(a.high, b.high);
  if (!is_finite(product.high)) return product;
  return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}
__device__ inline FloatPair operator/(FloatPair a, FloatPair b) {
  const float quotient = a.high / b.high;
  const float correction = (a - b * FloatPair(quotient)).high / b.high;
  return is_finite(quotient) && is_finite(correction) ? ordered_sum(quotient, correction) : FloatPair(quotient);
}
__device__ inline FloatPair &operator+=(FloatPair &a, FloatPair b) { return a = a + b; }
__device__ inline FloatPair &operator-=(FloatPair &a, FloatPair b) { return a = a - b; }
__device__ inline FloatPair &operator*=(FloatPair &a, FloatPair b) { return a = a * b; }
__device__ inline bool operator==(FloatPair a, FloatPair b) { return a.high == b.high && a.low == b.low; }
__device__ inline bool operator!=(FloatPair a, FloatPair b) { return !(a == b); }
__device__ inline bool operator<(FloatPair a, FloatPair b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}
__device__ inline bool operator>(FloatPair a, FloatPair b) { return b < a; }

#if defined(TB_NO_FMA)
// Returns a * b + c, rounded once, if nothing overflows or underflows (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
__device__ inline float emulated_fma(float a, float b, float c) {
  const FloatPair product = exact_product(a, b), lower = exact_sum(c, product.low);
  const FloatPair upper = exact_sum(product.high, lower.high), rest = exact_sum(lower.low, upper.low);
  unsigned odd = bits_of(rest.high); // rounded to the odd neighbour, so that the last addition rounds as if exact
  if (rest.low != 0 && odd % 2 == 0) odd += (rest.low > 0) == (rest.high > 0) ? 1 : -1;
  return upper.high + float_of(odd);
}
#endif

#if defined(TB_NO_FLOAT64)
// Returns the number that has these bits as a 64-bit float. `high` is rounded to nearest, ties to even.
__device__ inline FloatPair pair_of(Real real) {
  const unsigned sign = static_cast<unsigned>(real.bits >> 32) & 0x80000000u;
  const Unsigned size = real.bits & 0x7FFFFFFFFFFFFFFFull;
  if (size > 0x7FF0000000000000ull) return float_of(0x7FC00000u);
  if (size >= 0x47EFFFFFF0000000ull) return float_of(sign | 0x7F800000u); // half a step above the largest float
  const int exponent = static_cast<int>(size >> 52);
  if (exponent < 872) return float_of(sign); // below half of the least float
  const Unsigned digits = (size & 0x000FFFFFFFFFFFFFull) | 0x0010000000000000ull;
  const int dropped = exponent < 897 ? 29 + 897 - exponent : 29; // more for a subnormal float
  const Unsigned kept = (digits + ((1ull << (dropped - 1)) - 1) + (digits >> dropped & 1)) >> dropped;
  // A subnormal float has no exponent. The digits' leading bit and a carry add to the exponent of others.
  const unsigned begin = exponent < 897 ? 0 : static_cast<unsigned>(exponent - 897) << 23;
  const float high = float_of(sign | (begin + static_cast<unsigned>(kept)));
  if (exponent < 960) return high; // less than 2^-63, where a float's precision does
  const Long rest = static_cast<Long>(digits) - static_cast<Long>(kept << 29);
  const float low = static_cast<float>(rest) * float_of(static_cast<unsigned>(exponent - 948) << 23);
  return {high, sign ? -low : low};
}
#endif

} // namespace tb::kernels
