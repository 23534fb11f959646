// Maximum pooling of images, without a branch that depends on the data; PyTorch's kernel stalls on such branches.
//
// Values and indices are bit-identical to PyTorch's.
#pragma once
#include <cstdint>

namespace tb::ops::microkernels {

// The windows of one dimension.
struct PoolWindows {
  int64_t input, output, kernel, stride, padding, dilation;

  // The first element of window i, which may be in the padding, and its first element inside the input.
  int64_t begin(int64_t i) const { return i * stride - padding; }
  int64_t first(int64_t i) const {
    const int64_t at = begin(i);
    return at >= 0 ? at : at + (-at + dilation - 1) / dilation * dilation;
  }
};

// Pools `planes` dense planes on the calling thread: rows.input x columns.input elements to rows.output x columns.output
// maxima, and their indices within the plane. T is float or double. A plane of float has at most INT_MAX / 8 elements.
template <class T> void max_pool(const PoolWindows &rows, const PoolWindows &columns, int64_t planes, const T *from,
                                 T *to, int64_t *indices);

} // namespace tb::ops::microkernels
