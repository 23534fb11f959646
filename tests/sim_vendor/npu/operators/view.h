// view.h -- tensors in device memory, which operators read and write as dense arrays of one kind of number.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../src/acl.h"
#include "objects.h"

namespace sim {

// An error that ends a call or a task.
struct Refusal {
  Error code;
  std::string text;
};
[[noreturn, gnu::format(printf, 2, 3)]] void refuse(Error code, const char *format, ...);

struct View {
  int32_t device = 0, type = kFloat;
  Dims dims, strides;
  int64_t offset = 0;
  uint64_t storage = 0; // bytes
  void *address = nullptr;

  int64_t count() const { return count_of(dims); }
  // Throws the error that the device would report if the storage is not live memory of the device.
  void check(const char *name) const;
  View permuted(const Dims &order) const;
  View narrowed(size_t dim, int64_t start, int64_t size) const;
  View expanded(const Dims &to) const; // broadcast, also to more dimensions
};

// An array with uninitialised elements, since they are always written first.
template <class C> class Array {
public:
  explicit Array(int64_t count) : count_(count), values_(new C[static_cast<size_t>(count)]) {}
  C *data() { return values_.get(); }
  const C *data() const { return values_.get(); }
  C &operator[](int64_t i) { return values_[static_cast<size_t>(i)]; }
  const C &operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  int64_t count() const { return count_; }
  C *begin() { return data(); }
  const C *begin() const { return data(); }
  C *end() { return data() + count_; }
  const C *end() const { return data() + count_; }

private:
  int64_t count_;
  std::unique_ptr<C[]> values_;
};

// Copy a view to or from a dense array in the order of its dimensions. C is float, double or int64_t.
template <class C> Array<C> load(const View &view);
template <class C> void store(const View &view, const C *values);

} // namespace sim
