// Decides whether PyTorch's CUDA kernels serve the driver, and runs them.
#include "backends/torch_cuda/torch_cuda.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <cstdlib>
#include <string_view>

#include "custom/custom.h"
#include "dispatch/data_dependent.h"
#include "dispatch/fallback.h"
#include "dispatch/redispatch.h"
#include "runtime/runtime.h"
#include "tensor/copy.h"

namespace tb::ops::torch_cuda {
namespace {

constexpr TargetBackend cuda_kernels{c10::DeviceType::CUDA, c10::DispatchKey::CUDA};
constexpr TargetBackend waiting_cuda_kernels{c10::DeviceType::CUDA, c10::DispatchKey::CUDA, true};
bool is_active = false;
std::string why_not;

bool has_kernel(const char *name, const char *overload) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  return op.hasComputedKernelForDispatchKey(cuda_kernels.key);
}

// Returns why PyTorch's kernels cannot serve the driver, or an empty string if they can.
std::string obstacle() {
  const tb_driver_info info = driver_info();
  constexpr uint64_t needed = TB_GROUP_ASYNC | TB_GROUP_NATIVE;
  if (std::string_view(info.native) != "cuda" || (runtime.driver->groups & needed) != needed)
    return c10::str("the driver ", info.name, " does not say that its memory and streams are CUDA's");
  if (runtime.closures) return c10::str("the driver ", info.name, " runs PyTorch's CPU kernels");
  if (!c10::impl::hasDeviceGuardImpl(cuda_kernels.type) || !has_kernel("aten::add", "out"))
    return "the installed PyTorch has no kernels for CUDA";
  int32_t devices = 0;
  check(runtime.device.device_count(&devices), "device_count", -1);
  const int32_t known = c10::impl::VirtualGuardImpl(cuda_kernels.type).deviceCount();
  if (known != devices) return c10::str("PyTorch sees ", known, " CUDA devices and the driver ", devices);
  return "";
}

// Operators without a CUDA kernel go to the counted fallback.
template <const TargetBackend &kernels>
void run(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  if (op.hasComputedKernelForDispatchKey(kernels.key))
    redispatch_aliased(op, stack, kernels);
  else
    counted_fallback(op, stack);
}

torch::CppFunction boxed() { return torch::CppFunction::makeFromBoxedFunction<&run<cuda_kernels>>(); }

bool copy_elements(const at::Tensor &from, const at::Tensor &to) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{to, from, true};
  redispatch_aliased(op, &stack, cuda_kernels);
  return true;
}

int32_t serves(const tb_driver_api *, tb_driver *) {
  const char *value = std::getenv("TB_CUDA_OPERATORS");
  const std::string_view asked = value ? value : "";
  TORCH_CHECK(asked.empty() || asked == "own" || asked == "torch", "TB_CUDA_OPERATORS=", asked,
              " is neither own nor torch. Unset it, and tb-ops takes PyTorch's kernels where they fit");
  why_not = asked == "own" ? "TB_CUDA_OPERATORS=own" : obstacle();
  TORCH_CHECK(why_not.empty() || asked != "torch", "TB_CUDA_OPERATORS=torch cannot be: ", why_not,
              ". Without the variable tb-ops chooses what fits");
  is_active = why_not.empty();
  if (is_active && at::hasCUDA())
    at::globalContext().lazyInitDevice(cuda_kernels.type); // PyTorch's allocator needs that
  return is_active;
}

void install(const tb_operator_libraries *libraries) {
  auto &aten = *static_cast<torch::Library *>(libraries->aten);
  set_element_copy(&copy_elements);
  set_default_kernel(&run<cuda_kernels>);
  register_data_dependent<&run<waiting_cuda_kernels>>(aten);
  aten.impl("mode.values", boxed()); // PyTorch's own kernel refuses other devices
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const std::optional<c10::OperatorHandle> op = dispatcher.findOp(name);
    if (op && op->hasSchema() && op->hasKernelForDispatchKey(cuda_kernels.key) &&
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
        !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      aten.impl(c10::toString(name).c_str(), boxed());
  }
}

} // namespace

const tb_operator_backend backend{
    sizeof backend,
    torch_major,
    torch_minor,
    0,
    "torch_cuda",
    "the CUDA kernels of the installed PyTorch",
    "the groups ASYNC and NATIVE with native handles of CUDA, and a PyTorch with CUDA for the same devices",
    "jit",
    &serves,
    &install};

bool active() { return is_active; }
const std::string &reason() { return why_not; }

} // namespace tb::ops::torch_cuda
