// The key of the layout cache. It has everything on which the layout of an operator's results may depend: all of a call
// except the data of its tensors, and the settings that kernels read.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/hash.h>

#include <optional>
#include <vector>

namespace tb::ops {

// The arguments as words: numbers and strings by value, and tensors by dtype, shape, strides, device and flags. Two
// calls of one operator with equal keys return results of equal layout, unless the layout depends on data.
using CallKey = std::vector<int64_t>;

struct CallKeyHash {
  size_t operator()(const CallKey &key) const {
    size_t seed = key.size();
    for (int64_t word : key) seed = c10::hash_combine(seed, static_cast<size_t>(word));
    return seed;
  }
};

// Returns the key; empty if an argument cannot be part of it, such as a tensor that is not dense or a generator of the
// host.
std::optional<CallKey> call_key(c10::ArrayRef<c10::IValue> arguments);

} // namespace tb::ops
