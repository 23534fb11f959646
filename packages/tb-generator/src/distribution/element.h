// Element types: how their values are rounded, stored and enumerated.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tb/component.h"

namespace tb::generator {

// All bits set, or none.
template <class Bits> [[gnu::always_inline]] inline Bits mask(bool condition) {
  return static_cast<Bits>(Bits{0} - static_cast<Bits>(condition));
}

// Both functions round to nearest, ties to even, without branches, so that loops over them vectorise.
[[gnu::always_inline]] inline uint16_t float16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1)) >> 13; // exponent bias 127 to 15
  // Near 0.5 the last bit of a float is 2^-24, the distance of subnormal float16 values: the addition rounds to it.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t is_subnormal = mask<uint32_t>(magnitude < (113u << 23));
  const uint32_t is_infinite = mask<uint32_t>(magnitude >= 0x477FF000u); // from 65520 on
  const uint32_t is_nan = mask<uint32_t>(magnitude > 0x7F800000u);
  const uint32_t finite = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  const uint32_t result = (finite & ~is_infinite) | (0x7C00u & is_infinite) | (0x0200u & is_nan);
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | result);
}

[[gnu::always_inline]] inline uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

[[gnu::always_inline]] inline float float16_value(uint16_t bits) {
  const uint32_t magnitude = uint32_t{bits & 0x7FFFu} << 13;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f); // bias 15 to 127
  const uint32_t special = mask<uint32_t>((bits & 0x7C00u) == 0x7C00u) & 0x7F800000u;
  return std::bit_cast<float>(finite | special | uint32_t{bits & 0x8000u} << 16);
}

[[gnu::always_inline]] inline float bfloat16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// The next value of a 16-bit format. Apart from the sign, the bits of such a format are ordered as its values are.
inline uint16_t next_bits(uint16_t bits, int direction) {
  const int ordered = (bits & 0x8000 ? -(bits & 0x7FFF) : bits) + direction;
  return static_cast<uint16_t>(ordered < 0 ? 0x8000 - ordered : ordered);
}

// Storage is the type in memory, Real the type of the arithmetic. nearest() and next() return a double, which holds
// every value of every type.
struct Float32 {
  using Storage = float;
  using Real = float;
  static constexpr Real smallest = std::numeric_limits<float>::denorm_min();
  [[gnu::always_inline]] static Storage store(Real value) { return value; }
  [[gnu::always_inline]] static Real load(Storage value) { return value; }
  static double nearest(double value) { return static_cast<float>(value); }
  static double next(double value, int direction) {
    return std::nextafter(static_cast<float>(value),
                          static_cast<float>(direction) * std::numeric_limits<float>::infinity());
  }
};

struct Float64 {
  using Storage = double;
  using Real = double;
  static constexpr Real smallest = std::numeric_limits<double>::denorm_min();
  [[gnu::always_inline]] static Storage store(Real value) { return value; }
  [[gnu::always_inline]] static Real load(Storage value) { return value; }
  static double nearest(double value) { return value; }
  static double next(double value, int direction) {
    return std::nextafter(value, direction * std::numeric_limits<double>::infinity());
  }
};

struct Float16 {
  using Storage = uint16_t;
  using Real = float;
  static constexpr Real smallest = 0x1p-24f;
  [[gnu::always_inline]] static Storage store(Real value) { return float16_bits(value); }
  [[gnu::always_inline]] static Real load(Storage bits) { return float16_value(bits); }
  static double nearest(double value) { return float16_value(float16_bits(static_cast<float>(value))); }
  static double next(double value, int direction) {
    return float16_value(next_bits(float16_bits(static_cast<float>(value)), direction));
  }
};

struct Bfloat16 {
  using Storage = uint16_t;
  using Real = float;
  static constexpr Real smallest = 0x1p-133f;
  [[gnu::always_inline]] static Storage store(Real value) { return bfloat16_bits(value); }
  [[gnu::always_inline]] static Real load(Storage bits) { return bfloat16_value(bits); }
  static double nearest(double value) { return bfloat16_value(bfloat16_bits(static_cast<float>(value))); }
  static double next(double value, int direction) {
    return bfloat16_value(next_bits(bfloat16_bits(static_cast<float>(value)), direction));
  }
};

// The smallest value of a type that is at least `bound`, which may be infinite.
template <class Type> double at_least(double bound) {
  double value = Type::nearest(bound);
  while (value < bound) value = Type::next(value, 1);
  while (Type::next(value, -1) >= bound && Type::next(value, -1) < value) value = Type::next(value, -1);
  return value;
}

// The greatest value of a type that is less than `bound`.
template <class Type> double below(double bound) {
  double value = Type::nearest(bound);
  while (value >= bound) value = Type::next(value, -1);
  while (Type::next(value, 1) < bound) value = Type::next(value, 1);
  return value;
}

} // namespace tb::generator
