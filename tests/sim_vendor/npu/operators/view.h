// view.h -- a tensor in device memory as operators read and write it: dense arrays of one kind of number.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../src/acl.h"
#include "objects.h"

namespace sim {

// Why a call or a task cannot go on.
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
  // Throws what the device would report, unless the storage is live memory of the device.
  void check(const char *name) const;
  View permuted(const Dims &order) const;
  View narrowed(size_t dim, int64_t start, int64_t size) const;
  View expanded(const Dims &to) const; // broadcast, also to more dimensions
};

// Without a constructor, as the elements are written at once.
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

// C is float, double or int64_t. In the order of the view's dimensions.
template <class C> Array<C> load(const View &view);
template <class C> void store(const View &view, const C *values);

} // namespace sim
