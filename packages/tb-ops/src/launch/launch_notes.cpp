// Whether the tensors' dtypes can hold the numbers of a launch.
#include "launch/launch_notes.h"

#include <algorithm>

#include "runtime/capture.h"

namespace tb::ops {

thread_local constinit LaunchNotes launch_notes;

// Whether a number is complex beside tensors that are all real, or too large. If there are floating tensors, the integers
// are indices.
bool LaunchNotes::is_unfit() const {
  if (any_capture()) return false; // a capture cannot wait
  const auto has = [&](c10::ScalarType type) { return present_ >> static_cast<unsigned>(type) & 1; };
  if (complex_ && !has(c10::kComplexHalf) && !has(c10::kComplexFloat) && !has(c10::kComplexDouble)) return true;
  double holds = std::numeric_limits<double>::infinity();
  bool floating = false;
  const auto look = [&]<class Number>(c10::ScalarType type, Number largest) {
    if (!has(type)) return;
    floating |= c10::isFloatingType(type) || c10::isComplexType(type);
    if (c10::isIntegralType(type, false) && floating) return;
    holds = std::min(holds, static_cast<double>(largest));
  };
  look(c10::kDouble, std::numeric_limits<double>::infinity());
  look(c10::kComplexDouble, std::numeric_limits<double>::infinity());
  look(c10::kFloat, std::numeric_limits<float>::max());
  look(c10::kComplexFloat, std::numeric_limits<float>::max());
  look(c10::kBFloat16, std::numeric_limits<c10::BFloat16>::max());
  look(c10::kHalf, std::numeric_limits<c10::Half>::max());
  look(c10::kLong, std::numeric_limits<int64_t>::max());
  look(c10::kInt, std::numeric_limits<int32_t>::max());
  look(c10::kShort, std::numeric_limits<int16_t>::max());
  look(c10::kChar, std::numeric_limits<int8_t>::max());
  look(c10::kByte, std::numeric_limits<uint8_t>::max());
  if (floating && std::isinf(largest_)) return false;
  return largest_ > holds;
}

} // namespace tb::ops
