// Elementwise operators whose bodies are PyTorch's own: they build the iterator and end in a dispatch stub, where our
// entries queue a kernel.
#include "backends/jit/operators/elementwise.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/floor_divide_native.h>
#include <ATen/ops/floor_divide_ops.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/linspace_native.h>
#include <ATen/ops/linspace_ops.h>
#include <ATen/ops/logical_and_native.h>
#include <ATen/ops/logical_and_ops.h>
#include <ATen/ops/logical_not_native.h>
#include <ATen/ops/logical_not_ops.h>
#include <ATen/ops/logical_or_native.h>
#include <ATen/ops/logical_or_ops.h>
#include <ATen/ops/logical_xor_native.h>
#include <ATen/ops/logical_xor_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mse_loss_backward_native.h>
#include <ATen/ops/mse_loss_backward_ops.h>
#include <ATen/ops/mse_loss_native.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/relu_native.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/rsub_native.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/tril_ops.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/triu_ops.h>
#include <ATen/ops/where_native.h>
#include <ATen/ops/where_ops.h>

#include "backends/jit/device_facts.h"
#include "backends/jit/device_kernel.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

// Throws if the kernels do not support the iterator. A function that a dispatch stub calls cannot fall back to the CPU.
void require_fit(const at::TensorIteratorBase &iterator, const char *functor) {
  if (fits(iterator)) return;
  const c10::ScalarType type = iterator.dtype(iterator.ntensors() - 1);
  const bool lacks = !facts_of(iterator.device(0).index()).float64;
  TORCH_CHECK_NOT_IMPLEMENTED(false, functor, " on ", type, ": ",
                              lacks && !c10::isComplexType(type) ? "the device lacks float64"
                                                                 : "the device's kernels have no complex elements",
                              ". Compute it on the CPU: tensor.cpu()");
}

template <Name functor, class Iterator> void unary(Iterator &iterator) {
  require_fit(iterator, functor.value);
  pointwise(iterator, functor.value, iterator.input_dtype(0));
}
template <Name functor> void promoting(at::TensorIteratorBase &iterator) {
  require_fit(iterator, functor.value);
  pointwise(iterator, functor.value, iterator.maybe_common_dtype().value_or(iterator.input_dtype(0)));
}
template <Name functor> void promoting_iterator(at::TensorIterator &iterator) { promoting<functor>(iterator); }

void where_kernel(at::TensorIterator &iterator) {
  require_fit(iterator, "where");
  pointwise(iterator, "Where", iterator.input_dtype(1));
}

void mse_backward(at::TensorIterator &iterator, const c10::Scalar &scale) {
  require_fit(iterator, "mse_loss_backward");
  pointwise(iterator, "SquaredErrorBackward", iterator.common_dtype(), {scale});
}

// Writes start + i * step to element i, in the type of the output.
void arange(at::TensorIterator &iterator, const c10::Scalar &start, const c10::Scalar &, const c10::Scalar &step) {
  require_fit(iterator, "arange");
  const Tensor &out = iterator.tensor(0);
  with_contiguous(out, [&](const Tensor &to) {
    const kernels::RangeArguments arguments{to.numel(), to.mutable_data_ptr(), scalar_of(start), scalar_of(step), {}};
    launch_elements(device_number(to), {"rows.cuh", instance("range", to.scalar_type()), "RangeArguments"}, to.numel(),
                    arguments);
  });
}

// Writes the numbers from start to end, counted from the nearer one.
void linspace(at::TensorIterator &iterator, const c10::Scalar &start, const c10::Scalar &end, int64_t steps) {
  require_fit(iterator, "linspace");
  const Tensor &out = iterator.tensor(0);
  const bool whole = c10::isIntegralType(out.scalar_type(), true);
  with_contiguous(out, [&](const Tensor &to) {
    kernels::RangeArguments arguments{to.numel(), to.mutable_data_ptr(), scalar_of(start), {}, scalar_of(end)};
    const double apart = whole ? static_cast<double>(end.to<int64_t>()) - static_cast<double>(start.to<int64_t>())
                               : end.to<double>() - start.to<double>();
    arguments.step = scalar_of(apart / static_cast<double>(steps - 1));
    launch_elements(device_number(to), {"rows.cuh", instance("linspace", to.scalar_type()), "RangeArguments"},
                    to.numel(), arguments);
  });
}

Tensor &masked_fill_scalar(Tensor &self, const Tensor &mask, const c10::Scalar &value) {
  TORCH_CHECK(mask.dtype() == c10::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  TORCH_CHECK(mask.device() == self.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
  at::assert_no_partial_overlap(self, mask);
  const auto expanded = at::expand_inplace(self, mask, "masked_fill_");
  const at::TensorIterator iterator = at::TensorIteratorConfig()
                                          .set_check_mem_overlap(false)
                                          .check_all_same_dtype(false)
                                          .resize_outputs(false)
                                          .add_output(self)
                                          .add_const_input(self)
                                          .add_const_input(*expanded)
                                          .build();
  if (!fits(iterator)) return call_fallback<at::_ops::masked_fill__Scalar>(self, mask, value);
  pointwise(iterator, "MaskedFill", self.scalar_type(), {value});
  return self;
}

Tensor &masked_fill_tensor(Tensor &self, const Tensor &mask, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return masked_fill_scalar(self, mask, value.item()); // waits if the value is on the device
}

Tensor &mse_loss(const Tensor &self, const Tensor &target, int64_t reduction, Tensor &out) {
  const bool reduces = reduction == at::Reduction::Mean || reduction == at::Reduction::Sum;
  const c10::ScalarType type = at::result_type(self, target);
  if (!supported({&self, &target, &out}) || !c10::isFloatingType(type) || !c10::isFloatingType(out.scalar_type()) ||
      (!reduces && reduction != at::Reduction::None))
    return call_fallback<at::_ops::mse_loss_out>(self, target, reduction, out);
  // The operands are converted first, since there is no difference of a number and a bool.
  const Tensor apart = at::_ops::sub_Tensor::call(self.to(type), target.to(type), 1);
  const Tensor squares = at::_ops::pow_Tensor_Scalar::call(apart, 2);
  const Tensor result = reduction == at::Reduction::Mean  ? at::_ops::mean::call(squares, std::nullopt)
                        : reduction == at::Reduction::Sum ? at::_ops::sum::call(squares, std::nullopt)
                                                          : squares;
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

bool is_number(c10::ScalarType type) { return type != c10::kBool; }

template <class Op, class Meta, int upper> Tensor &triangle(const Tensor &self, int64_t diagonal, Tensor &out) {
  if (!supported({&self, &out}) || at::has_internal_overlap(out) == at::MemOverlap::Yes)
    return call_fallback<Op>(self, diagonal, out);
  Out<Meta> op(out);
  op.meta(self, diagonal);
  const Tensor from = contiguous(self);
  with_contiguous(out, [&](const Tensor &to) {
    if (to.numel() == 0) return;
    const int64_t rows = self.size(-2), columns = self.size(-1);
    const kernels::TriangleArguments arguments{
        self.numel() / (rows * columns), rows,  columns, diagonal, from.const_data_ptr(),
        to.mutable_data_ptr(),           upper, 0};
    launch_elements(device_number(to), {"rows.cuh", instance("triangle", to.scalar_type()), "TriangleArguments"},
                    to.numel(), arguments);
  });
  return out;
}

void enter_stubs() {
  using namespace at::native;
  abs_stub.set_privateuse1_dispatch_ptr(&unary<"Absolute", at::TensorIteratorBase>);
  logical_not_stub.set_privateuse1_dispatch_ptr(&unary<"LogicalNot", at::TensorIteratorBase>);
  logical_and_stub.set_privateuse1_dispatch_ptr(&promoting_iterator<"LogicalAnd">);
  logical_or_stub.set_privateuse1_dispatch_ptr(&promoting_iterator<"LogicalOr">);
  logical_xor_stub.set_privateuse1_dispatch_ptr(&promoting_iterator<"LogicalXor">);
  div_floor_stub.set_privateuse1_dispatch_ptr(&promoting<"DivideFloor">);
  at::native::where_kernel.set_privateuse1_dispatch_ptr(&jit::where_kernel);
  mse_backward_stub.set_privateuse1_dispatch_ptr(&mse_backward);
  arange_stub.set_privateuse1_dispatch_ptr(&arange);
  linspace_stub.set_privateuse1_dispatch_ptr(&linspace);
}

} // namespace

void register_elementwise(torch::Library &aten) {
  register_unary(aten);
  register_binary(aten);
  enter_stubs();
  add_supported<at::_ops::abs_out, &at::native::abs_out, &is_number>(aten);
  add_supported<at::_ops::logical_not_out, &at::native::logical_not_out>(aten);
  add_supported<at::_ops::logical_and_out, &at::native::logical_and_out>(aten);
  add_supported<at::_ops::logical_or_out, &at::native::logical_or_out>(aten);
  add_supported<at::_ops::logical_xor_out, &at::native::logical_xor_out>(aten);
  add_supported<at::_ops::floor_divide, &at::native::floor_divide>(aten);
  add_supported<at::_ops::where_self, &at::native::where>(aten);
  add_supported<at::_ops::where_self_out, &at::native::where_self_out>(aten);
  add_supported<at::_ops::mse_loss_backward, &at::native::mse_loss_backward>(aten);
  add_supported<at::_ops::mse_loss_backward_grad_input, &at::native::mse_loss_backward_out>(aten);
  add_supported<at::_ops::arange_start_out, &at::native::arange_out>(aten);
  add_supported<at::_ops::linspace_out, &at::native::linspace_out>(aten);
  aten.impl("isnan", &at::native::isnan);
  aten.impl("relu", &at::native::relu);
  aten.impl("relu_", &at::native::relu_);
  aten.impl("rsub.Tensor",
            static_cast<Tensor (*)(const Tensor &, const Tensor &, const c10::Scalar &)>(at::native::rsub));
  aten.impl("mse_loss.out", &mse_loss);
  aten.impl("masked_fill_.Scalar", &masked_fill_scalar);
  aten.impl("masked_fill_.Tensor", &masked_fill_tensor);
  aten.impl("tril.out", &triangle<at::_ops::tril_out, at::meta::structured_tril, 0>);
  aten.impl("triu.out", &triangle<at::_ops::triu_out, at::meta::structured_triu, 1>);
}

} // namespace tb::ops::jit
