// Tensors that are not dense: sparse (COO and compressed) and nested ones are made of dense tensors on tb; quantized
// ones do not exist on tb.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace tb::ops {

// Gives the operators on such tensors their kernels. Those of quantized tensors raise NotImplementedError.
void register_tensor_kinds();

inline bool is_dense(const at::Tensor &tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_nested();
}

// The operators whose kernels for the CPU read memory themselves, without "aten::"; the code generator writes them.
c10::ArrayRef<const char *> sparse_kernels_of_the_cpu();
c10::ArrayRef<const char *> compressed_kernels_of_the_cpu();
c10::ArrayRef<const char *> nested_kernels_of_the_cpu();

} // namespace tb::ops
