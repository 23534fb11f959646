// Sorts, for operators that need one.
#pragma once
#include <ATen/core/Tensor.h>

namespace tb::ops::jit {

// Contiguous rows, and for each element its place in the row that was sorted.
struct SortedRows {
  at::Tensor values, places;
};

// Sorts the rows of a contiguous tensor, whose last dimension has the elements of a row. Equal elements keep their
// order, and NaN is greater than all numbers.
SortedRows sort_rows(const at::Tensor &rows, bool descending);

} // namespace tb::ops::jit
