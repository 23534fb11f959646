// numbers.cpp -- half precision.
#include "numbers.h"

namespace sim {

float widen(Half value) {
  const uint32_t sign = uint32_t(value.bits & 0x8000) << 16, exponent = value.bits >> 10 & 31,
                 fraction = value.bits & 1023;
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(fraction), -24); // subnormal
    return sign ? -small : small;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

Half narrow_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  const auto signed_half = [sign](uint32_t rest) { return Half{static_cast<uint16_t>(sign | rest)}; };
  if (value != value) return signed_half(0x7e00);
  if (size >= 65520.0f) return signed_half(0x7c00); // rounds to infinity
  if (size < 6.103515625e-5f)                       // subnormal: a multiple of 2^-24, which may round up to normal
    return signed_half(static_cast<uint32_t>(std::nearbyint(size * 16777216.0f)));
  const uint32_t rest = (bits & 0x7fffffff) - (uint32_t(112) << 23);
  return signed_half((rest + 0xfff + (rest >> 13 & 1)) >> 13);
}

} // namespace sim
