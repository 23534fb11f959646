// Makes random numbers on the host and copies them to the device.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/bernoulli_native.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/random_native.h>
#include <ATen/ops/uniform_native.h>

#include "backends/host_copy/host_copy.h"
#include "dispatch/fallback.h"
#include "random/dropout.h"
#include "random/permutation.h"
#include "random/philox_fill.h"
#include "tensor/outputs.h"

namespace tb::ops::host_copy {
namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

// Calls fill(numbers) with a contiguous CPU tensor of that type, and copies the tensor to `out`.
template <class Fill> void copy_made(const Tensor &out, const PhiloxState &philox, c10::ScalarType type, Fill fill) {
  TORCH_CHECK_NOT_IMPLEMENTED(!philox.extragraph, "these random numbers are made on the host, and cannot be part of a "
                                                  "graph. Draw them before the capture");
  Tensor numbers = at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(out.sizes()), type, std::nullopt,
                                                       c10::Device(c10::kCPU), std::nullopt, std::nullopt);
  fill(numbers);
  Tensor to = out;
  at::_ops::copy_::call(to, numbers, false);
}

void fill(const at::TensorBase &out, Distribution distribution, const OptionalGenerator &generator, bool floating,
          const char *name) {
  const c10::ScalarType type = out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(generator_type(type) && (!floating || c10::isFloatingType(type)), name,
                              " numbers of type ", type,
                              " are not offered on the device. Make them in another type and convert with .to()");
  if (out.numel() == 0) return;
  distribution.philox = reserve(generator, out.device().index(), distribution.kind, type, out.numel());
  copy_made(Tensor(out), distribution.philox, type, [&](Tensor &numbers) { fill_tensor(numbers, distribution); });
}

void uniform(at::TensorIteratorBase &iterator, double from, double to, OptionalGenerator generator) {
  fill(iterator.tensor_base(0), {.kind = TB_FILL_UNIFORM, .a = from, .b = to}, generator, true, "uniform");
}
void normal(const at::TensorBase &out, double mean, double std, OptionalGenerator generator) {
  fill(out, {.kind = TB_FILL_NORMAL, .a = mean, .b = std}, generator, true, "normal");
}
void bernoulli(const at::TensorBase &out, double p, OptionalGenerator generator) {
  fill(out, {.kind = TB_FILL_BERNOULLI, .a = p}, generator, false, "Bernoulli");
}
void integers(at::TensorIteratorBase &iterator, uint64_t range, int64_t from, OptionalGenerator generator) {
  fill(iterator.tensor_base(0), {.kind = TB_FILL_INTEGERS, .from = from, .range = range}, generator, false, "integer");
}
void integers_64_bits(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  integers(iterator, 0, std::numeric_limits<int64_t>::min(), std::move(generator));
}
void integers_unbounded(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  integers(iterator, default_range(iterator.dtype()), 0, std::move(generator));
}
void exponential(at::TensorIteratorBase &iterator, double rate, OptionalGenerator generator) {
  fill(iterator.tensor_base(0), {.kind = TB_FILL_EXPONENTIAL, .a = rate}, generator, true, "exponential");
}
void cauchy(at::TensorIteratorBase &iterator, double median, double sigma, OptionalGenerator generator) {
  fill(iterator.tensor_base(0), {.kind = TB_FILL_CAUCHY, .a = median, .b = sigma}, generator, true, "Cauchy");
}
void log_normal(at::TensorIteratorBase &iterator, double mean, double std, OptionalGenerator generator) {
  fill(iterator.tensor_base(0), {.kind = TB_FILL_LOG_NORMAL, .a = mean, .b = std}, generator, true, "log-normal");
}
void geometric(at::TensorIteratorBase &iterator, double p, OptionalGenerator generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(iterator.dtype() != c10::kBool, "geometric numbers of type Bool are not offered");
  fill(iterator.tensor_base(0), {.kind = TB_FILL_GEOMETRIC, .a = p}, generator, false, "geometric");
}

Tensor &randperm_out(int64_t n, OptionalGenerator generator, Tensor &out) {
  check_permutation(n, generator, out);
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  const PhiloxState philox = reserve(generator, out.device().index(), TB_FILL_INTEGERS, c10::kLong, n);
  copy_made(out, philox, c10::kLong, [&](Tensor &numbers) {
    const tb_status status = runtime.generator.permutation(numbers.mutable_data_ptr<int64_t>(),
                                                           static_cast<uint64_t>(n), philox.seed, philox.offset);
    TORCH_CHECK(status == TB_OK, "tb-generator refused a permutation with status ", static_cast<int>(status));
  });
  return out;
}

// The host makes the mask. The multiplications are ordinary operators, which the driver runs as it runs any other.
std::tuple<Tensor, Tensor> dropout(const Tensor &input, double p, std::optional<bool> train) {
  if (auto undrawn = undrawn_dropout(input, p, train)) return *undrawn;
  const double keep = 1. - p;
  Tensor mask = empty_preserving(input, c10::kBool);
  fill(mask, {.kind = TB_FILL_BERNOULLI, .a = keep}, std::nullopt, false, "Bernoulli");
  Tensor out = at::_ops::mul_Tensor::call(input, mask);
  at::_ops::mul__Scalar::call(out, keep == 0 ? 0. : 1. / keep);
  return {std::move(out), std::move(mask)};
}

// Sets the stub's entry unless an earlier backend has set it.
template <class Stub, class Function> void enter(Stub &stub, Function *function) {
  if (!stub.is_device_supported(device_type)) stub.set_privateuse1_dispatch_ptr(function);
}

bool has_kernel(const char *name, const char *overload = "") {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, overload)
      .hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

void register_random(torch::Library &aten) {
  using namespace at::native;
  enter(uniform_stub, &uniform);
  enter(normal_stub, &normal);
  enter(bernoulli_scalar_stub, &bernoulli);
  enter(random_from_to_stub, &integers);
  enter(random_full_64_bits_range_stub, &integers_64_bits);
  enter(random_stub, &integers_unbounded);
  enter(exponential_stub, &exponential);
  enter(cauchy_stub, &cauchy);
  enter(log_normal_stub, &log_normal);
  enter(geometric_stub, &geometric);
  aten.impl("randperm.generator_out", &randperm_out);
  aten.impl("exponential_", &at::native::exponential_);
  aten.impl("cauchy_", &at::native::cauchy_);
  aten.impl("log_normal_", &at::native::log_normal_);
  aten.impl("geometric_", &at::native::geometric_);
  aten.impl("uniform_", &at::native::uniform_);
  aten.impl("normal_", &at::native::normal_);
  aten.impl("bernoulli_.float", static_cast<Tensor &(*)(Tensor &, double, OptionalGenerator)>(at::native::bernoulli_));
  aten.impl("random_", static_cast<Tensor &(*)(Tensor &, OptionalGenerator)>(at::native::random_));
  aten.impl("random_.from", static_cast<Tensor &(*)(Tensor &, int64_t, std::optional<int64_t>, OptionalGenerator)>(
                                at::native::random_));
  aten.impl("random_.to", static_cast<Tensor &(*)(Tensor &, int64_t, OptionalGenerator)>(at::native::random_));
}

} // namespace

bool serves(const Runtime &runtime) { return !runtime.closures; }

void install(torch::Library &aten, torch::Library &) {
  register_random(aten);
  if (!has_kernel("aten::convolution_overrideable")) register_convolution_fallback(aten);
  // PyTorch's wrapper makes results on several devices before anything is checked.
  if (!has_kernel("aten::_linalg_solve_ex")) register_default_kernel(aten, "_linalg_solve_ex");
  if (!has_kernel("aten::mode", "values")) register_default_kernel(aten, "mode.values");
  if (!has_kernel("aten::native_dropout")) aten.impl("native_dropout", &dropout);
}

} // namespace tb::ops::host_copy
