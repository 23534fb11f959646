// A call of an operator as an entry gets it: IValues as plain structs.
#pragma once
#include <ATen/core/ivalue.h>

#include <deque>
#include <optional>
#include <vector>

#include "tb/kernels.h"

namespace tb::ops::vendor {

// PyTorch's dtype as TB_DTYPE_*; empty for those that the interface lacks.
std::optional<int32_t> dtype_of(c10::ScalarType type);

// The TB_LAYOUT_* of a strided tensor.
uint32_t layout_of(const at::Tensor &tensor);

// Describes arguments and outputs. The tensors must outlive it.
class CallDescription {
public:
  // The arguments' types in the schema are those of `schema`. Returns false if one has no form in the interface.
  bool add(const c10::FunctionSchema &schema, c10::ArrayRef<c10::IValue> arguments);
  void add_output(const at::Tensor &output);

  // Without addresses if `planned`. Valid as long as this object, if nothing is added.
  tb_kernel_call call(c10::DeviceIndex device, bool planned);
  // All tensors that were added, outputs last.
  c10::ArrayRef<tb_kernel_tensor> tensors() const { return tensors_; }

private:
  bool add(const c10::IValue &value, bool is_dtype);
  void add(const at::Tensor &tensor);
  void add_number(const c10::Scalar &number);

  struct Place {
    int32_t kind, count;
    size_t first;
    const char *text;
  };
  c10::SmallVector<tb_kernel_tensor, 8> tensors_;
  c10::SmallVector<tb_kernel_number, 8> numbers_;
  c10::SmallVector<Place, 8> places_;
  c10::SmallVector<tb_kernel_argument, 8> arguments_;
  size_t outputs_ = 0;
};

} // namespace tb::ops::vendor
