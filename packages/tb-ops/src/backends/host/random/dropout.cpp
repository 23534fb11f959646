// Dropout: tb-generator draws the mask and applies it in one pass.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_dropout_backward_native.h>
#include <ATen/ops/native_dropout_native.h>

#include "backends/host/host.h"
#include "intraop/thread_policy.h"
#include "random/dropout.h"
#include "random/philox_fill.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// Computes out = input * mask * scale, rounded after each product as the CPU's two multiplications round.
template <class Number>
void scale_kept(const Number *input, const bool *mask, Number *out, int64_t count, at::opmath_type<Number> scale) {
  using Wide = at::opmath_type<Number>;
  for (int64_t i = 0; i < count; i++) {
    const auto kept = static_cast<Number>(static_cast<Wide>(input[i]) * static_cast<Wide>(mask[i]));
    out[i] = static_cast<Number>(static_cast<Wide>(kept) * scale);
  }
}

void dropout_kernel(const Tensor &input, const Distribution &keep, double scale, Tensor &out, Tensor &mask) {
  if (!input.is_contiguous() || !out.is_contiguous() || !mask.is_contiguous()) {
    fill_tensor(mask, keep);
    Tensor product = at::_ops::mul_Tensor::call(input, mask);
    copy_result(out, at::_ops::mul__Scalar::call(product, scale));
    return;
  }
  const auto *from = static_cast<const char *>(input.const_data_ptr());
  auto *to = static_cast<char *>(out.mutable_data_ptr());
  bool *kept = mask.mutable_data_ptr<bool>();
  const auto size = static_cast<int64_t>(input.element_size());
  const PhiloxState now = keep.philox.now();
  intraop.loop(input.numel(), .8, [&](int64_t begin, int64_t end) {
    const tb_status status = runtime.generator.dropout(
        from + begin * size, to + begin * size, kept + begin, generator_type(input.scalar_type()),
        static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin), now.seed, now.offset, keep.a, scale);
    TORCH_CHECK(status == TB_OK, "tb-generator refused a dropout with status ", static_cast<int>(status));
  });
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor &input, double p, std::optional<bool> train) {
  if (auto undrawn = undrawn_dropout(input, p, train)) return *undrawn;
  const c10::DeviceIndex device = device_number(input);
  TORCH_CHECK_NOT_IMPLEMENTED(!input.is_complex(), "dropout is not implemented for ", input.scalar_type());
  TORCH_CHECK(c10::isFloatingType(input.scalar_type()), "result type Float can't be cast to the desired output type ",
              input.scalar_type());
  const double keep = 1. - p;
  const Distribution distribution{.kind = TB_FILL_BERNOULLI,
                                  .a = keep,
                                  .philox =
                                      reserve(std::nullopt, device, TB_FILL_BERNOULLI, c10::kBool, input.numel())};
  Tensor out = empty_preserving(input, input.scalar_type()), mask = empty_preserving(input, c10::kBool);
  launch<"aten::native_dropout">(device, [x = TensorDescriptor(input), distribution, scale = keep == 0 ? 0. : 1. / keep,
                                          y = WrittenDescriptor(out), m = WrittenDescriptor(mask)]() mutable {
    dropout_kernel(x.as_cpu_tensor(), distribution, scale, y.as_cpu_tensor(), m.as_cpu_tensor());
  });
  return {std::move(out), std::move(mask)};
}

void backward_kernel(const Tensor &grad, const Tensor &mask, double scale, Tensor &out) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, grad.scalar_type(), "dropout_backward", [&] {
    const scalar_t *from = grad.const_data_ptr<scalar_t>();
    const bool *kept = mask.const_data_ptr<bool>();
    scalar_t *to = out.mutable_data_ptr<scalar_t>();
    intraop.loop(grad.numel(), .3, [&](int64_t begin, int64_t end) {
      scale_kept<scalar_t>(from + begin, kept + begin, to + begin, end - begin,
                           static_cast<at::opmath_type<scalar_t>>(scale));
    });
  });
}

Tensor native_dropout_backward(const Tensor &grad, const Tensor &mask, double scale) {
  common_device("aten::native_dropout_backward", {&grad, &mask});
  const bool simple = mask.scalar_type() == c10::kBool && c10::isFloatingType(grad.scalar_type()) &&
                      grad.sizes() == mask.sizes() && grad.is_contiguous() && mask.is_contiguous();
  if (!simple) return at::native::native_dropout_backward(grad, mask, scale);
  Tensor out = empty_on(grad, grad.sizes(), grad.scalar_type());
  launch_kernel<"aten::native_dropout_backward", backward_kernel>(device_number(grad), grad, mask, scale, out);
  return out;
}

} // namespace

void register_dropout(torch::Library &aten) {
  aten.impl("native_dropout", &native_dropout);
  aten.impl("native_dropout_backward", &native_dropout_backward);
}

} // namespace tb::ops::host
