// plan.cpp -- computes shapes.
#include "plan.h"

#include <algorithm>

#include "split.h"

namespace sim {

size_t dimension(int64_t dim, size_t rank) {
  const auto size = static_cast<int64_t>(rank ? rank : 1); // a tensor without dimensions counts as having one
  must(dim >= -size && dim < size, "a dimension that the tensor does not have");
  return static_cast<size_t>(dim < 0 ? dim + size : dim);
}

Dims broadcast(const Dims &one, const Dims &other) {
  Dims out(std::max(one.size(), other.size()), 1);
  for (const Dims *dims : {&one, &other})
    for (size_t i = 0; i < dims->size(); ++i) {
      int64_t &size = out[out.size() - dims->size() + i];
      const int64_t its = (*dims)[i];
      must(size == 1 || its == 1 || size == its, "shapes that do not broadcast");
      if (its != 1) size = its;
    }
  return out;
}

Split::Split(const Dims &dims, const Dims &along, bool keep) {
  std::vector<bool> chosen(dims.size() + 1, false);
  for (const int64_t each : along) {
    const size_t dim = dimension(each, dims.size());
    must(!chosen[dim], "a dimension that is named twice");
    chosen[dim] = true;
  }
  for (const bool in_row : {false, true})
    for (size_t dim = 0; dim < dims.size(); ++dim)
      if (chosen[dim] == in_row) {
        order.push_back(static_cast<int64_t>(dim));
        (in_row ? length : rows) *= dims[dim];
      }
  for (size_t dim = 0; dim < dims.size(); ++dim)
    if (!chosen[dim] || keep) kept.push_back(chosen[dim] ? 1 : dims[dim]);
}

} // namespace sim
