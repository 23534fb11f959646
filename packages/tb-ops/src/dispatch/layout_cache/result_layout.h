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
  size_t position = 0; // argument: its place among all tensors of the call
  c10::ScalarType type = c10::ScalarType::Undefined;
  c10::DimVector sizes, strides;
  bool conjugate = false, negative = false;

  at::Tensor make(c10::DeviceIndex device) const; // fresh
};

struct CallLayout {
  std::vector<std::vector<ResultLayout>> returns; // a list for each return; a list of one if the return is a tensor
  c10::DeviceIndex device = -1;
};

// Every tensor among the arguments, in order, also those in lists; undefined for None.
std::vector<at::Tensor> tensors_of(c10::ArrayRef<c10::IValue> arguments);

// The layout of the results of a finished call. Empty if it does not describe the next call: results that are views, have
// gaps, are on another device or are no tensors, or arguments on more than one tb device.
std::optional<CallLayout> layout_of(c10::ArrayRef<at::Tensor> arguments, c10::ArrayRef<c10::IValue> results);

} // namespace tb::ops
