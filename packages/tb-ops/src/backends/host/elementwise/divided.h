// Elementwise kernels whose last bits depend on where a thread's part begins, divided so that they do not.
#pragma once
#include <ATen/core/Tensor.h>

#include "intraop/thread_policy.h"
#include "worker/worker_tensors.h"

namespace tb::ops::host {

// Calls run(out, inputs...) of an elementwise kernel that takes one thread about `nanoseconds` per element, in parts if
// that is faster. Kernels compute whole vectors and the remaining elements in different ways. Each part begins where a
// vector of the whole begins, so the results are bit-identical to those of the whole.
template <class Run, class... Inputs>
void in_parts(double nanoseconds, const Run &run, at::Tensor &out, const Inputs &...inputs) {
  constexpr int64_t vectors = 64; // elements
  const int64_t elements = out.numel();
  const auto matches = [&](const at::Tensor &input) {
    return input.scalar_type() == out.scalar_type() && input.numel() == elements && input.is_contiguous();
  };
  const bool floats = out.scalar_type() == c10::kFloat || out.scalar_type() == c10::kDouble;
  const int64_t parts = floats && out.is_contiguous() && (matches(inputs) && ...)
                            ? intraop.parts(elements / vectors, nanoseconds * static_cast<double>(elements))
                            : 1;
  if (parts == 1) return run(out, inputs...);
  intraop.share(parts, [&](int64_t i, int64_t of) {
    const int64_t begin = begin_of_part(i, of, elements, vectors), end = begin_of_part(i + 1, of, elements, vectors);
    run(slice(out, begin, end - begin), slice(inputs, begin, end - begin)...);
  });
}

} // namespace tb::ops::host
