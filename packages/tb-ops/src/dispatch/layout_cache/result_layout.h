// The layout of the results of one call.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <vector>

#include "runtime/runtime.h"

namespace tb::ops {

// One tensor that a call returned.
struct ResultLayout {
  enum class Kind { undefined, argument, fresh };
  Kind kind = Kind::undefined;
  size_t position = 0; // of an argument, among all tensors of the call
  c10::ScalarType type = c10::ScalarType::Undefined;
  c10::DimVector sizes, strides;
  bool conjugate = false, negative = false;

  at::Tensor make(c10::DeviceIndex device) const; // allocates a fresh result
};

struct CallLayout {
  std::vector<std::vector<ResultLayout>> returns; // a list for each return; a list of one if the return is a tensor
  c10::DeviceIndex device = -1;
};

// Returns every tensor among the arguments, in order, also those in lists. A None in a list becomes an undefined
// tensor.
std::vector<at::Tensor> tensors_of(c10::ArrayRef<c10::IValue> arguments);

// Returns the layout of the results of a finished call. It is empty if the next call may differ: if results are views,
// have gaps, are on another device or are no tensors, or if arguments are on more than one tb device.
std::optional<CallLayout> layout_of(c10::ArrayRef<at::Tensor> arguments, c10::ArrayRef<c10::IValue> results);

} // namespace tb::ops
