// The bounds of an interval in a floating-point type.
#include "backends/jit/operators/rounding.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tb::ops::jit {
namespace {

// Returns the next value of a 16-bit format. Apart from the sign, its bits are in the order of the values.
template <class Short> double next_short(double value, int direction) {
  const uint16_t bits = Short(static_cast<float>(value)).x;
  const int ordered = (bits & 0x8000 ? -(bits & 0x7FFF) : bits) + direction;
  const auto next = static_cast<uint16_t>(ordered < 0 ? 0x8000 - ordered : ordered);
  return static_cast<float>(Short(next, Short::from_bits()));
}

double nearest(c10::ScalarType type, double value) {
  switch (type) {
  case c10::kHalf:
    return static_cast<float>(c10::Half(static_cast<float>(value)));
  case c10::kBFloat16:
    return static_cast<float>(c10::BFloat16(static_cast<float>(value)));
  case c10::kFloat:
    return static_cast<float>(value);
  default:
    return value;
  }
}

double next(c10::ScalarType type, double value, int direction) {
  switch (type) {
  case c10::kHalf:
    return next_short<c10::Half>(value, direction);
  case c10::kBFloat16:
    return next_short<c10::BFloat16>(value, direction);
  case c10::kFloat:
    return std::nextafter(static_cast<float>(value),
                          static_cast<float>(direction) * std::numeric_limits<float>::infinity());
  default:
    return std::nextafter(value, direction * std::numeric_limits<double>::infinity());
  }
}

} // namespace

Interval interval_of(c10::ScalarType type, double from, double to) {
  TORCH_CHECK(std::isfinite(from) && std::isfinite(to) && from <= to, "random numbers in ", from, " <= x < ", to,
              ": give finite bounds, from <= to");
  double low = nearest(type, from), high = low;
  if (from < to) {
    while (low < from) low = next(type, low, 1);
    while (next(type, low, -1) >= from) low = next(type, low, -1);
    high = nearest(type, to);
    while (high >= to) high = next(type, high, -1);
    while (next(type, high, 1) < to) high = next(type, high, 1);
  }
  TORCH_CHECK(low <= high && std::isfinite(low), "random numbers in ", from, " <= x < ", to, ": ", type,
              " has no value there. Widen the interval or use float64");
  return {low, high};
}

double least_positive(c10::ScalarType type) { return next(type, 0, 1); }

} // namespace tb::ops::jit
