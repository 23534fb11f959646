// The elements of a Python buffer or DLPack tensor in host memory, numbered in row-major order for any strides.
// Fills write them; dropout() and multinomial() also read such arrays.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fill/fill.h"

namespace tb::generator {

class HostArray {
public:
  // `type` is TB_*, or 0 for the object's own type. Memory of bytes may be given any type, and memory of 16-bit
  // integers may be given bfloat16. Raises TypeError and ValueError whose text says what to do.
  HostArray(nanobind::handle object, int32_t type, bool writable);
  HostArray(const HostArray &) = delete;
  HostArray &operator=(const HostArray &) = delete;
  ~HostArray();

  int32_t type() const { return type_; }
  uint64_t count() const { return count_; }
  bool contiguous() const { return contiguous_; }
  char *data() const { return data_; }

  // Runs fill(dst, range) for all elements, which are number `first` and the following ones of a sequence, on up to
  // `threads` threads. `fill` gets contiguous memory. The caller does not hold the GIL.
  void run(uint64_t first, uint32_t threads, const std::function<void(void *, Range)> &fill) const;

private:
  struct Axis {
    int64_t size, stride; // stride in bytes
  };
  void take_buffer(nanobind::handle object, int32_t asked, bool writable);
  void take_tensor(nanobind::handle object, int32_t asked);
  void measure(); // sets count_ and contiguous_; raises ValueError for strides of 0
  void scatter(const char *from, uint64_t first, uint64_t count) const;

  char *data_ = nullptr;
  int32_t type_ = 0;
  uint64_t count_ = 1;
  bool contiguous_ = true;
  std::vector<Axis> axes_;
  std::function<void()> release_ = [] {};
};

} // namespace tb::generator
