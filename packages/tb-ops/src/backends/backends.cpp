// The list of backends, and the registration of all operators.
#include "backends/backends.h"

#include <c10/core/Allocator.h>

#include <mutex>

#include "backends/aclnn/aclnn.h"
#include "backends/host/cpu_kernels.h"
#include "backends/host/host.h"
#include "backends/host_copy/host_copy.h"
#include "backends/jit/jit.h"
#include "backends/sync_batch_norm.h"
#include "backends/torch_cuda/torch_cuda.h"
#include "backends/vendor/table.h"
#include "backends/vendor/vendor.h"
#include "dispatch/fallback.h"
#include "dispatch/routes.h"
#include "dispatch/tensor_kinds.h"
#include "launch/launch_blocking.h"
#include "runtime/late_warning_report.h"
#include "tensor/copy.h"
#include "tensor/factories.h"

namespace tb::ops {
namespace {

// In the order in which they register.
constexpr OperatorBackend all_backends[] = {
    {"host", "PyTorch's CPU kernels, run by the driver's worker on the device's memory",
     "memory that the host may touch, and the group CLOSURE", &host::serves, &host::install},
    {"torch_cuda", "the CUDA kernels of the installed PyTorch",
     "the groups ASYNC and NATIVE with native handles of CUDA, and a PyTorch with CUDA for the same devices",
     &torch_cuda::serves, &torch_cuda::install},
    {"jit", "kernels of tb-ops, compiled when they first run; random numbers only, beside torch_cuda",
     "no native closures, the groups ASYNC and MODULE, and a compiler or a pack of images for the device's "
     "architecture",
     &jit::serves, &jit::install},
    {"aclnn", "operators of the vendor's library in two phases",
     "the groups ASYNC and NATIVE, devices named Ascend, and the vendor's library", &aclnn::serves, &aclnn::install},
    {"host_copy", "random numbers and dropout made on the host; all else by the counted fallback",
     "every driver that host does not serve", &host_copy::serves, &host_copy::install},
    {"vendor", "a vendor's own kernels (tb/kernels.h), in front of the kernels of the others",
     "every driver with the extension tb.kernels, or for which an entry point tb.kernels has a library",
     &vendor::serves, &vendor::install},
};

std::vector<BackendState> states;

std::vector<BackendState> decide() {
  vendor::read_tables(); // they say which compilers there are, too
  std::vector<BackendState> out;
  for (const OperatorBackend &backend : all_backends) out.push_back({&backend, backend.serves(runtime)});
  return out;
}

} // namespace

const std::vector<BackendState> &backends() { return states; }

void initialize() {
  static std::mutex lock;
  static bool done = false;
  const std::lock_guard guard(lock);
  if (done) return;
  TORCH_CHECK(c10::GetAllocator(device_type) != nullptr,
              "tb-ops needs an allocator for the device type; import torch_backend, which registers it, first.");
  host::cpu_kernels(); // throws for an unknown value of its variable, before anything is registered
  open();
  block_launches();
  check(runtime.device.on_shutdown(&report_last_warnings, nullptr), "on_shutdown", -1);
  std::vector<BackendState> decided = decide();
  static auto *aten =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  register_factories(*aten);
  register_routed_views(*aten);
  register_copies(*aten);
  register_fallback();
  register_tensor_kinds();
  for (const BackendState &state : decided)
    if (state.serves) state.backend->install(*aten, *autograd);
  if (!has_default_kernel()) register_sync_batch_norm(*aten); // PyTorch's CUDA kernels have their own
  states = std::move(decided);
  done = true;
}

} // namespace tb::ops
