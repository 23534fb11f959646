// Converts a TensorIterator to the arguments of a kernel.
#include "backends/jit/pointwise.h"

#include <algorithm>
#include <string_view>

#include "backends/jit/device_facts.h"
#include "backends/jit/device_kernel.h"

namespace tb::ops::jit {
namespace {

kernels::Scalar read_number(const at::TensorBase &tensor) {
  return scalar_of(at::Tensor(tensor).item()); // a CPU tensor, so item() does not wait
}

// Returns the type to which the CPU's kernel of a functor converts its numbers.
c10::ScalarType number_type(std::string_view functor, c10::ScalarType common) {
  if (functor == "PowerOfNumber" && c10::isFloatingType(common)) return c10::kDouble;
  constexpr std::string_view in_single_precision[] = {"Fill", "Threshold", "AddProduct", "AddQuotient", "Interpolate"};
  const auto named = [&](std::string_view name) { return functor == name; };
  const bool wide = c10::isReducedFloatingType(common) && std::ranges::any_of(in_single_precision, named);
  return wide ? c10::kFloat : common;
}

// Whether all operands are of the type and without gaps, or numbers.
bool is_dense(const kernels::PointwiseArguments &arguments, int operands, c10::ScalarType type) {
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  for (int k = 0; k < operands; k++) {
    const kernels::Operand &operand = arguments.operands[k];
    if (!operand.data) continue;
    if (operand.type != type_code(type) || (arguments.dims > 0 && arguments.strides[k][0] != size)) return false;
  }
  return arguments.dims <= 1;
}

} // namespace

bool fits(const at::TensorIteratorBase &iterator) {
  if (iterator.noutputs() != 1 || iterator.ntensors() > kernels::max_operands || iterator.ndim() > kernels::max_dims)
    return false;
  const c10::DeviceIndex device = iterator.device(0).index();
  if (const auto common = iterator.maybe_common_dtype(); common && !has_type(device, *common)) return false;
  int numbers = 0;
  for (int i = 0; i < iterator.ntensors(); i++) {
    if (!has_type(iterator.device(i).index(), iterator.dtype(i))) return false;
    if (iterator.device(i).is_cpu()) numbers += iterator.is_cpu_scalar(i) ? 1 : 2;
  }
  return numbers <= 1;
}

void pointwise(const at::TensorIteratorBase &iterator, const char *functor, c10::ScalarType common,
               c10::ArrayRef<c10::Scalar> scalars) {
  TORCH_INTERNAL_ASSERT(scalars.size() <= kernels::max_scalars);
  kernels::PointwiseArguments arguments{};
  for (size_t i = 0; i < scalars.size(); i++) {
    check_number(scalars[i], number_type(functor, common));
    arguments.scalars[i] = scalar_of(scalars[i]);
  }
  const int64_t count = iterator.numel();
  if (count == 0) return;
  arguments.count = count;
  arguments.dims = iterator.ndim();
  for (int d = 0; d < arguments.dims; d++) arguments.sizes[d] = iterator.shape()[static_cast<size_t>(d)];
  for (int i = 0; i < iterator.ntensors(); i++) {
    kernels::Operand &operand = arguments.operands[i];
    operand.type = type_code(iterator.dtype(i));
    if (iterator.device(i).is_cpu()) {
      arguments.value = read_number(iterator.tensor_base(i));
      continue;
    }
    operand.data = iterator.data_ptr(i);
    for (int d = 0; d < arguments.dims; d++) arguments.strides[i][d] = iterator.strides(i)[static_cast<size_t>(d)];
  }
  const c10::DeviceIndex device = iterator.device(0).index();
  const bool dense = facts_of(device).vector_size && is_dense(arguments, iterator.ntensors(), common);
  const std::string body =
      std::string(dense ? "pointwise_dense<" : "pointwise<") + functor + ", " + type_name(common) + ">";
  launch_elements(device, {"elementwise.cuh", body, "PointwiseArguments"}, count, arguments);
}

bool copy_elements(const at::Tensor &from, const at::Tensor &to) {
  if (!supported({&from, &to})) return false;
  const at::TensorIterator iterator = at::TensorIteratorConfig()
                                          .add_output(to)
                                          .add_const_input(from)
                                          .set_check_mem_overlap(false)
                                          .check_all_same_dtype(false)
                                          .resize_outputs(false)
                                          .build();
  if (!fits(iterator)) return false;
  pointwise(iterator, "Identity", from.scalar_type());
  return true;
}

void fill_elements(const at::Tensor &tensor, const c10::Scalar &value) {
  const at::TensorIterator iterator = at::TensorIteratorConfig()
                                          .add_output(tensor)
                                          .set_check_mem_overlap(false)
                                          .check_all_same_dtype(false)
                                          .resize_outputs(false)
                                          .build();
  pointwise(iterator, "Fill", tensor.scalar_type(), {value});
}

at::Tensor contiguous(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.is_contiguous()) return tensor;
  at::Tensor out = empty(tensor.sizes(), {}, tensor.scalar_type(), device_number(tensor));
  out.copy_(tensor);
  return out;
}

} // namespace tb::ops::jit
