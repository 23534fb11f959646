// Softmax, divided among threads where its result does not depend on their number.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <c10/core/WrapDimMinimal.h>

#include "backends/host/overrides.h"
#include "intraop/thread_policy.h"

namespace tb::ops::host::cpu {

// Along the last dimension a row is computed by one thread. Along others, vectors of columns and what remains beside them
// are computed in different ways.
void _softmax_outf(const at::Tensor &self, int64_t dim, bool half_to_float, at::Tensor &out) {
  constexpr double nanoseconds = .7; // of an element on one thread
  const auto run = [&] { at::cpu::_softmax_outf(self, dim, half_to_float, out); };
  const bool rows = c10::maybe_wrap_dim(dim, self.dim()) == std::max<int64_t>(self.dim(), 1) - 1;
  if (!rows || self.scalar_type() != c10::kFloat) return run();
  intraop.run_invariant(nanoseconds * static_cast<double>(self.numel()), run);
}

} // namespace tb::ops::host::cpu
