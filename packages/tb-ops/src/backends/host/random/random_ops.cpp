// Random operators. PyTorch's own bodies check the arguments and end in a dispatch stub; tb-ops' entries there reserve
// a range of the device's generator and queue the fill.
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/aminmax_ops.h>
#include <ATen/ops/lt_ops.h>

#include "backends/host/host.h"
#include "backends/host/random/sampling.h"
#include "random/philox_fill.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

// Throws what the CPU's kernel throws for a type that it lacks. On the worker it would throw too late for the caller.
void check_kernel(bool offered, const char *kernel, const at::TensorBase &tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(offered, '"', kernel, "\" not implemented for '", tensor.scalar_type(), "'");
}
bool floating(const at::TensorBase &tensor) { return c10::isFloatingType(tensor.scalar_type()); }
bool real(const at::TensorBase &tensor) { return !c10::isComplexType(tensor.scalar_type()); }
void check_continuous(const char *distribution, const at::TensorBase &tensor) {
  TORCH_CHECK(floating(tensor), distribution,
              " distribution is a continuous probability distribution. dtype must be a ",
              "floating point but you specified ", tensor.scalar_type());
}

template <Name name>
void launch_fill(const at::TensorBase &out, Distribution distribution, OptionalGenerator generator) {
  if (out.numel() == 0) return;
  const c10::DeviceIndex device = out.device().index();
  distribution.philox = reserve(generator, device, distribution.kind, out.scalar_type(), out.numel());
  launch<name>(device, [to = WrittenDescriptor(Tensor(out)), distribution]() mutable {
    fill_tensor(to.as_cpu_tensor(), distribution);
  });
}

void fill_uniform(at::TensorIteratorBase &iterator, double from, double to, OptionalGenerator generator) {
  launch_fill<"aten::uniform_">(iterator.tensor_base(0), {.kind = TB_FILL_UNIFORM, .a = from, .b = to}, generator);
}

void fill_normal(const at::TensorBase &self, double mean, double std, OptionalGenerator generator) {
  check_kernel(floating(self), "normal_kernel_cpu", self);
  launch_fill<"aten::normal_">(self, {.kind = TB_FILL_NORMAL, .a = mean, .b = std}, generator);
}

void fill_exponential(at::TensorIteratorBase &iterator, double rate, OptionalGenerator generator) {
  check_continuous("Exponential", iterator.tensor_base(0));
  launch_fill<"aten::exponential_">(iterator.tensor_base(0), {.kind = TB_FILL_EXPONENTIAL, .a = rate}, generator);
}

void fill_bernoulli(const at::TensorBase &self, double p, OptionalGenerator generator) {
  check_kernel(real(self), "bernoulli_scalar_cpu_", self);
  launch_fill<"aten::bernoulli_">(self, {.kind = TB_FILL_BERNOULLI, .a = p}, generator);
}

// Throws if a probability is NaN or not from 0 to 1. Runs on the worker.
void check_probabilities(const Tensor &p) {
  const auto [least, most] = at::_ops::aminmax::call(p, std::nullopt, false);
  const double low = least.item().toDouble(), high = most.item().toDouble();
  TORCH_CHECK(low >= 0 && high <= 1, "bernoulli expects probabilities from 0 to 1, but got numbers from ", low, " to ",
              high);
}

// Each element has its own probability, and becomes 1 if a uniform number is below it.
void fill_bernoulli_each(const at::TensorBase &self, const at::TensorBase &probabilities, OptionalGenerator generator) {
  check_kernel(real(self), "bernoulli_tensor_cpu_self_", self);
  check_kernel(floating(probabilities), "bernoulli_tensor_cpu_p_", probabilities);
  const Tensor target(self);
  Tensor given(probabilities);
  (void)at::expand_inplace(target, given, "bernoulli_"); // throws if they do not broadcast
  if (self.numel() == 0) return;
  const c10::DeviceIndex device = self.device().index();
  if (!given.is_cpu()) given = given.to(self.device()); // probabilities may be on any device, as on CUDA
  const Distribution unit{.kind = TB_FILL_UNIFORM,
                          .b = 1,
                          .philox = reserve(generator, device, TB_FILL_UNIFORM, c10::kDouble, self.numel())};
  launch<"aten::bernoulli_">(device,
                             [to = WrittenDescriptor(Tensor(self)), p = TensorDescriptor(given), unit]() mutable {
                               check_probabilities(p.as_cpu_tensor());
                               Tensor &tensor = to.as_cpu_tensor();
                               Tensor numbers = host_doubles(tensor.sizes());
                               fill_tensor(numbers, unit);
                               copy_result(tensor, at::_ops::lt_Tensor::call(numbers, p.as_cpu_tensor()));
                             });
}

void random_from_to(at::TensorIteratorBase &iterator, uint64_t range, int64_t base, OptionalGenerator generator) {
  launch_fill<"aten::random_">(iterator.tensor_base(0), {.kind = TB_FILL_INTEGERS, .from = base, .range = range},
                               generator);
}

void random_64_bits(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  random_from_to(iterator, 0, std::numeric_limits<int64_t>::min(), std::move(generator));
}

void random_unbounded(at::TensorIteratorBase &iterator, OptionalGenerator generator) {
  check_kernel(real(iterator.tensor_base(0)), "random_kernel_cpu", iterator.tensor_base(0));
  random_from_to(iterator, default_range(iterator.dtype()), 0, std::move(generator));
}

void fill_cauchy(at::TensorIteratorBase &iterator, double median, double sigma, OptionalGenerator generator) {
  check_continuous("Cauchy", iterator.tensor_base(0));
  launch_fill<"aten::cauchy_">(iterator.tensor_base(0), {.kind = TB_FILL_CAUCHY, .a = median, .b = sigma}, generator);
}

void fill_geometric(at::TensorIteratorBase &iterator, double p, OptionalGenerator generator) {
  const at::TensorBase &out = iterator.tensor_base(0);
  check_kernel(real(out) && out.scalar_type() != c10::kBool, "geometric_cpu", out);
  launch_fill<"aten::geometric_">(out, {.kind = TB_FILL_GEOMETRIC, .a = p}, generator);
}

void fill_log_normal(at::TensorIteratorBase &iterator, double mean, double std, OptionalGenerator generator) {
  const at::TensorBase &out = iterator.tensor_base(0);
  check_kernel(floating(out), "log_normal_cpu", out);
  launch_fill<"aten::log_normal_">(out, {.kind = TB_FILL_LOG_NORMAL, .a = mean, .b = std}, generator);
}

void enter_stubs() {
  using namespace at::native;
  uniform_stub.set_privateuse1_dispatch_ptr(&fill_uniform);
  normal_stub.set_privateuse1_dispatch_ptr(&fill_normal);
  exponential_stub.set_privateuse1_dispatch_ptr(&fill_exponential);
  bernoulli_scalar_stub.set_privateuse1_dispatch_ptr(&fill_bernoulli);
  bernoulli_tensor_stub.set_privateuse1_dispatch_ptr(&fill_bernoulli_each);
  random_from_to_stub.set_privateuse1_dispatch_ptr(&random_from_to);
  random_full_64_bits_range_stub.set_privateuse1_dispatch_ptr(&random_64_bits);
  random_stub.set_privateuse1_dispatch_ptr(&random_unbounded);
  cauchy_stub.set_privateuse1_dispatch_ptr(&fill_cauchy);
  geometric_stub.set_privateuse1_dispatch_ptr(&fill_geometric);
  log_normal_stub.set_privateuse1_dispatch_ptr(&fill_log_normal);
}

} // namespace

void register_random(torch::Library &aten) {
  enter_stubs();
  register_sampling(aten);
}

} // namespace tb::ops::host
