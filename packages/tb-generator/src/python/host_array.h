// What a fill of Python's writes: the elements of a buffer or of a DLPack tensor in host memory, in row-major order,
// whatever the strides.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fill.h"

namespace tb::generator {

class Target {
public:
  // `type`: TB_*, or 0 for the object's own. A memory of bytes may be given any type, 16-bit integers bfloat16. Raises
  // TypeError and ValueError with what to do.
  Target(nanobind::handle object, int32_t type, bool writable);
  Target(const Target &) = delete;
  Target &operator=(const Target &) = delete;
  ~Target();

  int32_t type() const { return type_; }
  uint64_t count() const { return count_; }
  bool contiguous() const { return contiguous_; }
  char *data() const { return data_; }

  // Runs fill(dst, range) for the target's elements, which are `first` and the following ones of a sequence, on up to
  // `threads` threads. fill gets contiguous memory. Called without Python's lock.
  void run(uint64_t first, uint32_t threads, const std::function<void(void *, Range)> &fill) const;

private:
  struct Axis {
    int64_t size, stride; // stride in bytes
  };
  void take_buffer(nanobind::handle object, int32_t asked);
  void take_tensor(nanobind::handle object, int32_t asked);
  void measure(); // count_ and contiguous_; refuses strides of 0
  void scatter(const char *from, uint64_t first, uint64_t count) const;

  char *data_ = nullptr;
  int32_t type_ = 0;
  uint64_t count_ = 1;
  bool contiguous_ = true;
  std::vector<Axis> axes_;
  std::function<void()> release_ = [] {};
};

} // namespace tb::generator
