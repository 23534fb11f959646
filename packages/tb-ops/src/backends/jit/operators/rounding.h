// The bounds of an interval in a floating-point type.
#pragma once
#include <c10/core/ScalarType.h>

namespace tb::ops::jit {

struct Interval {
  double low, high; // both are inside
};

// Returns the least and the greatest value of a floating-point type in from <= x < to. If from == to, both are `from`
// rounded to the type. Throws if the type has no such value, or if the bounds are not finite or not in order.
Interval interval_of(c10::ScalarType type, double from, double to);

// Returns the least value above 0 of a floating-point type.
double least_positive(c10::ScalarType type);

} // namespace tb::ops::jit
