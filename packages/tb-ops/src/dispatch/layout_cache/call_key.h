// What the layout of an operator's results may depend on: everything of a call but the data of its tensors, and the
// thread's settings that kernels ask for.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/hash.h>

#include <optional>
#include <vector>

namespace tb {

// The arguments as words: numbers and texts by value; tensors by type, shape, strides, device and flags. Two calls of one
// operator with equal words give results of equal layout, if the layout does not depend on data.
using CallKey = std::vector<int64_t>;

struct CallKeyHash {
  size_t operator()(const CallKey &key) const {
    size_t seed = key.size();
    for (int64_t word : key) seed = c10::hash_combine(seed, static_cast<size_t>(word));
    return seed;
  }
};

// Nothing where an argument is of a kind that words cannot tell: tensors that are not dense, a host's generator.
std::optional<CallKey> call_key(c10::ArrayRef<c10::IValue> arguments);

} // namespace tb
