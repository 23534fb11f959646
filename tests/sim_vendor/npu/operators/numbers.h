// numbers.h -- element types, and conversions between them.
//
// Operators compute with three kinds of numbers only: float (also for 16-bit floats), double, and int64_t (for integers
// and bool).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace sim {

enum Type : int32_t { // aclDataType
  kFloat = 0,
  kHalf = 1,
  kInt8 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 6,
  kInt64 = 9,
  kDouble = 11,
  kBool = 12,
  kBfloat16 = 27,
};

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

float widen(Half value);
Half narrow_to_half(float value);

inline float widen(Bfloat16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
inline Bfloat16 narrow_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {0x7fc0};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)}; // to nearest, ties to even
}

template <class C, class E> C from_element(E value) {
  if constexpr (std::is_same_v<E, Half> || std::is_same_v<E, Bfloat16>)
    return static_cast<C>(widen(value));
  else if constexpr (std::is_same_v<E, Bool>)
    return static_cast<C>(value.byte != 0);
  else
    return static_cast<C>(value);
}

template <class E, class C> E to_element(C value) {
  if constexpr (std::is_same_v<E, Half>)
    return narrow_to_half(static_cast<float>(value));
  else if constexpr (std::is_same_v<E, Bfloat16>)
    return narrow_to_bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<E, Bool>)
    return {static_cast<uint8_t>(value != C(0))};
  else if constexpr (std::is_integral_v<E> && std::is_floating_point_v<C>) {
    constexpr C bound = static_cast<C>(9223372036854775808.0); // a conversion outside of the bound is undefined in C++
    const bool fits = value >= -bound && value < bound;
    return static_cast<E>(fits ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min());
  } else
    return static_cast<E>(value);
}

inline bool is_floating(int32_t type) {
  return type == kFloat || type == kHalf || type == kDouble || type == kBfloat16;
}

// Calls f.template operator()<E>() with the element's C++ type. Returns false if the type is not simulated.
template <class F> bool with_element(int32_t type, F &&f) {
  switch (type) {
  case kFloat:
    return f.template operator()<float>(), true;
  case kHalf:
    return f.template operator()<Half>(), true;
  case kInt8:
    return f.template operator()<int8_t>(), true;
  case kInt32:
    return f.template operator()<int32_t>(), true;
  case kUint8:
    return f.template operator()<uint8_t>(), true;
  case kInt16:
    return f.template operator()<int16_t>(), true;
  case kInt64:
    return f.template operator()<int64_t>(), true;
  case kDouble:
    return f.template operator()<double>(), true;
  case kBool:
    return f.template operator()<Bool>(), true;
  case kBfloat16:
    return f.template operator()<Bfloat16>(), true;
  default:
    return false;
  }
}

inline uint64_t size_of(int32_t type) { // 0 if the type is not simulated
  uint64_t size = 0;
  with_element(type, [&]<class E>() { size = sizeof(E); });
  return size;
}

// Calls f.template operator()<C>() with the kind of number in which a type is computed.
template <class F> void with_kind(int32_t type, F &&f) {
  if (type == kDouble)
    f.template operator()<double>();
  else if (is_floating(type))
    f.template operator()<float>();
  else
    f.template operator()<int64_t>();
}
template <class F> void with_floating_kind(int32_t type, F &&f) {
  if (type == kDouble)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

} // namespace sim
