// What a launch records of the arguments that its closure captures, to decide whether it must wait for the kernel.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace tb::ops {

// The notes on one launch.
struct LaunchNote {
  uint64_t types = 0; // the dtypes of the tensors, folded into a number (DtypeProbe)
  // The kernel may refuse the call whatever the dtypes: it writes to a tensor that overlaps itself, or it has a number
  // that the tensors' dtypes cannot hold.
  bool doubtful = false;
};

// The notes of the calling thread on its next launch, which takes them. Of consecutive tensors of one dtype only the first
// few count, so that lists of different lengths give the same number. Empty tensors count apart: kernels do not look at
// their dtype.
class LaunchNotes {
public:
  void add(c10::ScalarType type, bool empty) {
    const uint64_t symbol = 2 * static_cast<uint64_t>(type) + empty + 1;
    present_ |= uint64_t{1} << static_cast<unsigned>(type);
    row_ = symbol == last_ ? row_ + 1 : 1;
    last_ = symbol;
    if (row_ > counted_in_a_row) return;
    noted_.types = noted_.types * 131 + symbol;
  }
  void add_overlap() { noted_.doubtful = true; }
  void add(const c10::Scalar &number) {
    if (number.isSymbolic()) return;
    if (number.isComplex()) [[unlikely]] {
      complex_ = true;
      return;
    }
    const double size = number.isFloatingPoint() ? std::fabs(number.toDouble()) : std::fabs(number.to<double>());
    if (!(size <= held_by_all)) [[unlikely]]
      largest_ = size > largest_ ? size : std::isnan(size) ? std::numeric_limits<double>::infinity() : largest_;
  }
  LaunchNote take() {
    if (largest_ > held_by_all || complex_) [[unlikely]]
      noted_.doubtful |= is_unfit();
    last_ = present_ = 0;
    largest_ = 0;
    complex_ = false;
    return std::exchange(noted_, {});
  }

private:
  // Enough for arguments that are no lists: (int, float, float) is another call than (int, int, float).
  static constexpr uint32_t counted_in_a_row = 3;
  static constexpr double held_by_all = 127;
  bool is_unfit() const;

  LaunchNote noted_;
  uint64_t last_ = 0;
  uint32_t row_ = 0;
  uint64_t present_ = 0; // dtypes, as bits
  double largest_ = 0;   // of the real numbers
  bool complex_ = false; // whether a number is complex
};
extern thread_local constinit LaunchNotes launch_notes;

} // namespace tb::ops
