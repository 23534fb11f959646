// histc of integers, which PyTorch counts in its kernel for CUDA and not in the CPU's. Clients that know the CPU by its
// name give integers to every other device, such as the number of tokens for each expert.
#include <ATen/Dispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "backends/host/host.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"
#include "launch/launch.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
__extension__ typedef unsigned __int128 Wide; // holds the product of any difference and any number of bins

// Each bin is a half-open part of [low, high], and the last one includes `high`; values outside are not counted.
template <class T> void count(const Tensor &self, int64_t low, int64_t high, Tensor &out) {
  const Tensor dense = self.contiguous();
  const c10::ArrayRef<T> values(dense.const_data_ptr<T>(), static_cast<size_t>(dense.numel()));
  if (low == high && !values.empty()) { // as in PyTorch's kernels: the range of the data
    const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
    low = *smallest, high = *largest;
  }
  if (low == high) {
    if (low > INT64_MIN) low--;
    if (high < INT64_MAX) high++;
  }
  const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t bins = static_cast<uint64_t>(out.numel());
  Tensor counts = at::zeros_like(out, at::MemoryFormat::Contiguous);
  T *places = counts.mutable_data_ptr<T>();
  for (const int64_t value : values) {
    if (value < low || value > high) continue;
    const uint64_t offset = static_cast<uint64_t>(value) - static_cast<uint64_t>(low);
    places[std::min(static_cast<uint64_t>(Wide{offset} * bins / width), bins - 1)]++;
  }
  copy_result(out, counts);
}

void histc_kernel(const Tensor &self, const c10::Scalar &min, const c10::Scalar &max, Tensor &out) {
  AT_DISPATCH_INTEGRAL_TYPES(self.scalar_type(), "histc",
                             [&] { count<scalar_t>(self, min.to<int64_t>(), max.to<int64_t>(), out); });
}

Tensor &histc_out(const Tensor &self, int64_t bins, const c10::Scalar &min, const c10::Scalar &max, Tensor &out) {
  TORCH_CHECK(bins > 0, "histc: bins must be > 0, but they are ", bins);
  TORCH_CHECK(min.to<int64_t>() <= max.to<int64_t>(), "histc: max must be larger than min, but they are ", max, " and ",
              min);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "histc: the output is ", out.scalar_type(), " and the input ",
              self.scalar_type(), "; they must have one type");
  const c10::DeviceIndex device = common_device("aten::histc", {&self, &out});
  at::native::resize_output(out, {bins});
  launch_kernel<"aten::histc", histc_kernel>(device, self, min, max, out);
  return out;
}

// Takes the calls with integers, and leaves the others to the CPU's kernel.
class Histc final : public c10::OperatorKernel {
public:
  explicit Histc(const c10::OperatorHandle &op) : of_the_cpu_(layout_caching_kernel(op)) {}

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
    const size_t count = op.schema().arguments().size();
    const c10::IValue *given = &(*stack)[stack->size() - count];
    const Tensor self = given[0].toTensor();
    if (!c10::isIntegralType(self.scalar_type(), /*includeBool=*/false)) return of_the_cpu_.callBoxed(op, keys, stack);
    const int64_t bins = given[1].toInt();
    Tensor out = count > 4 ? given[4].toTensor() : empty_on(self, {std::max<int64_t>(bins, 0)}, self.scalar_type());
    histc_out(self, bins, given[2].toScalar(), given[3].toScalar(), out);
    torch::jit::drop(*stack, count);
    torch::jit::push(*stack, std::move(out));
  }

private:
  const c10::BoxedKernel of_the_cpu_;
};

} // namespace

void register_histogram(torch::Library &aten) {
  for (const char *overload : {"", "out"}) {
    const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::histc", overload);
    aten.impl(op.operator_name().overload_name.empty() ? "histc" : "histc.out",
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Histc>(op)));
  }
}

} // namespace tb::ops::host
