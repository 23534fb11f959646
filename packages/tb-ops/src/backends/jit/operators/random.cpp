// Random fills: the host reserves a range of the generator, as on every driver, and the device makes the numbers. Rarer
// distributions are made on the host (backends/host_copy).
#include <cmath>
#include <numbers>

#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/native_dropout_backward_ops.h>
#include <ATen/ops/native_dropout_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/rounding.h"
#include "backends/jit/pointwise.h"
#include "random/dropout.h"
#include "random/philox_fill.h"
#include "tensor/outputs.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

void check_type(const at::TensorBase &tensor, const char *distribution, bool floating) {
  TORCH_CHECK_NOT_IMPLEMENTED(generator_type(tensor.scalar_type()) &&
                                  (!floating || c10::isFloatingType(tensor.scalar_type())),
                              distribution, " numbers of type ", tensor.scalar_type(),
                              " are not offered on the device. Make them in another type and convert with .to()");
  TORCH_CHECK_NOT_IMPLEMENTED(has_type(tensor.device().index(), tensor.scalar_type()), distribution,
                              " numbers of type ", tensor.scalar_type(),
                              ": the device lacks float64. Make them on the CPU and copy with .to()");
}

// Runs name<type> over `out`, with a new range of the generator.
void fill(const at::TensorBase &out, int32_t kind, const char *name, kernels::RandomArguments arguments,
          const OptionalGenerator &generator) {
  if (out.numel() == 0) return;
  const c10::DeviceIndex device = out.device().index();
  const PhiloxState philox = reserve(generator, device, kind, out.scalar_type(), out.numel());
  arguments.seed = philox.seed, arguments.offset = philox.offset, arguments.count = out.numel();
  with_contiguous(Tensor(out), [&](const Tensor &to) {
    arguments.output = to.mutable_data_ptr();
    launch_elements(device, {"random.cuh", instance(name, to.scalar_type()), "RandomArguments"}, to.numel(), arguments);
  });
}

void uniform(at::TensorIteratorBase &iterator, double from, double to, OptionalGenerator generator) {
  const at::TensorBase &out = iterator.tensor_base(0);
  check_type(out, "uniform", true);
  kernels::RandomArguments arguments{};
  // The least and the greatest number of the type in the interval. The kernel keeps rounded sums between them.
  const Interval held = interval_of(out.scalar_type(), from, to);
  arguments.from = from, arguments.low = held.low, arguments.high = held.high;
  const bool wide = out.scalar_type() == c10::kDouble;
  arguments.width = wide ? to - from : static_cast<double>(static_cast<float>(to) - static_cast<float>(from));
  fill(out, TB_FILL_UNIFORM, "uniform", arguments, generator);
}

void normal(const at::TensorBase &out, double mean, double std, OptionalGenerator generator) {
  check_type(out, "normal", true);
  kernels::RandomArguments arguments{};
  arguments.from = mean, arguments.width = std * std::numbers::sqrt2;
  fill(out, TB_FILL_NORMAL, "normal", arguments, generator);
}

void exponential(at::TensorIteratorBase &iterator, double rate, OptionalGenerator generator) {
  const at::TensorBase &out = iterator.tensor_base(0);
  TORCH_CHECK(c10::isFloatingType(out.scalar_type()), "Exponential distribution is a continuous probability ",
              "distribution. dtype must be a floating point but you specified ", out.dtype());
  check_type(out, "exponential", true);
  kernels::RandomArguments arguments{};
  arguments.width = std::isfinite(rate) ? 1 / rate : 1, arguments.low = least_positive(out.scalar_type());
  fill(out, TB_FILL_EXPONENTIAL, "exponential", arguments, generator);
  if (!std::isfinite(rate)) Tensor(out).div_(rate);
}

uint64_t threshold_of(double p) { return static_cast<uint64_t>(p * 0x1p32 + 0.5); } // as tb-generator rounds it

void bernoulli(const at::TensorBase &out, double p, OptionalGenerator generator) {
  check_type(out, "Bernoulli", false);
  kernels::RandomArguments arguments{};
  arguments.range = threshold_of(p);
  fill(out, TB_FILL_BERNOULLI, "bernoulli", arguments, generator);
}

void integers(at::TensorIteratorBase &iterator, uint64_t range, int64_t from, OptionalGenerator generator) {
  const at::TensorBase &out = iterator.tensor_base(0);
  check_type(out, "integer", false);
  const c10::ScalarType type = out.scalar_type();
  const bool large = range == 0 || range > uint64_t{1} << 32;
  kernels::RandomArguments arguments{};
  arguments.start = static_cast<uint64_t>(from), arguments.range = range;
  if (c10::isFloatingType(type)) {
    const Interval held = interval_of(type, static_cast<double>(from), static_cast<double>(from) + double(range));
    arguments.low = held.low, arguments.high = held.high;
  }
  fill(out, TB_FILL_INTEGERS, large ? "large_integers" : "small_integers", arguments, generator);
}

void integers_64_bits(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  integers(iterator, 0, std::numeric_limits<int64_t>::min(), std::move(generator));
}
void integers_unbounded(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  integers(iterator, default_range(iterator.dtype()), 0, std::move(generator));
}

// ---- dropout ------------------------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> dropout(const Tensor &input, double p, std::optional<bool> train) {
  if (!supported({&input}) || !c10::isFloatingType(input.scalar_type()))
    return call_fallback<at::_ops::native_dropout>(input, p, train);
  if (auto undrawn = undrawn_dropout(input, p, train)) return *undrawn;
  const c10::DeviceIndex device = device_number(input);
  const Tensor from = contiguous(input);
  Tensor out = empty(input.sizes(), {}, input.scalar_type(), device),
         mask = empty(input.sizes(), {}, c10::kBool, device);
  const PhiloxState philox = reserve(std::nullopt, device, TB_FILL_BERNOULLI, c10::kBool, input.numel());
  const double keep = 1. - p;
  kernels::RandomArguments arguments{};
  arguments.count = input.numel(), arguments.seed = philox.seed, arguments.offset = philox.offset;
  arguments.input = from.const_data_ptr(), arguments.output = out.mutable_data_ptr();
  arguments.mask = mask.mutable_data_ptr();
  arguments.range = threshold_of(keep), arguments.scale = keep == 0 ? 0. : 1. / keep;
  launch_elements(device, {"random.cuh", instance("dropout", input.scalar_type()), "RandomArguments"}, input.numel(),
                  arguments);
  return {std::move(out), std::move(mask)};
}

Tensor dropout_backward(const Tensor &grad, const Tensor &mask, double scale) {
  if (!supported({&grad, &mask}) || !c10::isFloatingType(grad.scalar_type()))
    return call_fallback<at::_ops::native_dropout_backward>(grad, mask, scale);
  Tensor out;
  const at::TensorIterator iterator = at::TensorIteratorConfig()
                                          .check_all_same_dtype(false)
                                          .set_check_mem_overlap(false)
                                          .declare_static_dtype_and_device(grad.scalar_type(), grad.device())
                                          .add_output(out)
                                          .add_const_input(grad)
                                          .add_const_input(mask)
                                          .build();
  pointwise(iterator, "DropoutBackward", grad.scalar_type(), {scale});
  return iterator.output();
}

} // namespace

void register_random(torch::Library &aten) {
  using namespace at::native;
  uniform_stub.set_privateuse1_dispatch_ptr(&uniform);
  normal_stub.set_privateuse1_dispatch_ptr(&normal);
  exponential_stub.set_privateuse1_dispatch_ptr(&exponential);
  bernoulli_scalar_stub.set_privateuse1_dispatch_ptr(&bernoulli);
  random_from_to_stub.set_privateuse1_dispatch_ptr(&integers);
  random_full_64_bits_range_stub.set_privateuse1_dispatch_ptr(&integers_64_bits);
  random_stub.set_privateuse1_dispatch_ptr(&integers_unbounded);
  aten.impl("native_dropout", &dropout);
  aten.impl("native_dropout_backward", &dropout_backward);
}

} // namespace tb::ops::jit
