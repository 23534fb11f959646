// The key of the layout cache: everything on which the layout of an operator's results may depend, which is all of a call
// except the data of its tensors, and the thread's settings that kernels read.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/hash.h>

#include <optional>
#include <vector>

namespace tb::ops {

// The arguments as words: numbers and texts by value; tensors by dtype, shape, strides, device and flags. Two calls of one
// operator with equal keys give results of equal layout, unless the layout depends on data.
using CallKey = std::vector<int64_t>;

struct CallKeyHash {
  size_t operator()(const CallKey &key) const {
    size_t seed = key.size();
    for (int64_t word : key) seed = c10::hash_combine(seed, static_cast<size_t>(word));
    return seed;
  }
};

// Empty if an argument has no words: a tensor that is not dense, a generator of the host.
std::optional<CallKey> call_key(c10::ArrayRef<c10::IValue> arguments);

} // namespace tb::ops
