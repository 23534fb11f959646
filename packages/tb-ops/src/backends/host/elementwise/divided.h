// Elementwise kernels whose last bits depend on where a thread's part begins, divided so that they do not.
#pragma once
#include <ATen/core/Tensor.h>

#include "intraop/thread_policy.h"
#include "worker/worker_tensors.h"

namespace tb::ops::host {

// Calls run(out, inputs...) of an elementwise kernel that takes one thread about `nanoseconds` per element, in parts if
// that is faster. Kernels compute whole vectors and the remaining elements in different ways. Each part begins where a
// vector of the whole begins, so the results are bit-identical to those of the whole: at a multiple of any vector's
// length, or in matrices that have gaps, such as the gates of a recurrent cell, at a row.
template <class Run, class... Inputs>
void in_parts(double nanoseconds, const Run &run, at::Tensor &out, const Inputs &...inputs) {
  constexpr int64_t vectors = 64; // elements
  const int64_t elements = out.numel();
  const double whole = nanoseconds * static_cast<double>(elements);
  const auto matches = [&](const at::Tensor &input) { return input.scalar_type() == out.scalar_type(); };
  const auto dense = [&](const at::Tensor &input) { return input.numel() == elements && input.is_contiguous(); };
  const auto in_rows = [&](const at::Tensor &input) {
    return input.dim() == 2 && input.sizes() == out.sizes() && input.stride(1) == 1 && input.stride(0) >= input.size(1);
  };
  const bool floats = out.scalar_type() == c10::kFloat || out.scalar_type() == c10::kDouble;
  if (!floats || !out.is_contiguous() || !(matches(inputs) && ...)) return run(out, inputs...);
  if ((dense(inputs) && ...)) {
    const int64_t parts = intraop.parts(elements / vectors, whole);
    if (parts == 1) return run(out, inputs...);
    return intraop.share(parts, [&](int64_t i, int64_t of) {
      const int64_t begin = begin_of_part(i, of, elements, vectors), end = begin_of_part(i + 1, of, elements, vectors);
      run(slice(out, begin, end - begin), slice(inputs, begin, end - begin)...);
    });
  }
  const int64_t parts = in_rows(out) && (in_rows(inputs) && ...) ? intraop.parts(out.size(0), whole) : 1;
  if (parts == 1) return run(out, inputs...);
  intraop.share(parts, [&](int64_t i, int64_t of) {
    const int64_t begin = begin_of_part(i, of, out.size(0), 1),
                  count = begin_of_part(i + 1, of, out.size(0), 1) - begin;
    at::Tensor to = out.narrow(0, begin, count);
    run(to, inputs.narrow(0, begin, count)...);
  });
}

} // namespace tb::ops::host
