// Looks at each index once.
#include "backends/host/indexing/index_bounds.h"

#include <algorithm>

namespace tb::ops::host {
namespace {

template <class Index>
void check(const at::Tensor &indices, int64_t end, const char *what, std::optional<int64_t> allowed) {
  const at::Tensor dense = indices.contiguous();
  const auto *first = dense.const_data_ptr<Index>(), *last = first + dense.numel();
  const auto *bad = std::find_if(first, last, [=](Index index) {
    const auto wide = static_cast<int64_t>(index);
    return static_cast<uint64_t>(wide) >= static_cast<uint64_t>(end) && wide != allowed;
  });
  TORCH_CHECK_INDEX(bad == last, what, ": index ", static_cast<int64_t>(*bad), " is out of range [0, ", end, ")");
}

} // namespace

void check_bounds(const at::Tensor &indices, int64_t end, const char *what, std::optional<int64_t> allowed) {
  if (indices.numel() == 0) return;
  if (indices.scalar_type() == at::kLong) return check<int64_t>(indices, end, what, allowed);
  if (indices.scalar_type() == at::kInt) return check<int32_t>(indices, end, what, allowed);
  if (indices.scalar_type() == at::kByte) return check<uint8_t>(indices, end, what, allowed);
}

} // namespace tb::ops::host
