// Intervals as floating types hold them.
#pragma once
#include <c10/core/ScalarType.h>

namespace tb::ops::jit {

struct Interval {
  double low, high; // both inside
};

// The least and the greatest value of a floating type in from <= x < to; both `from`, rounded, where from == to. Throws
// where the type has none.
Interval interval_of(c10::ScalarType type, double from, double to);

} // namespace tb::ops::jit
