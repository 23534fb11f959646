// A generated kernel is loaded once for each device, and keeps its functions.
#include "backends/jit/generated_kernel.h"

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"

namespace tb::ops::jit {
namespace {

static_assert(TB_GENERATED_KERNEL_ARGUMENTS * sizeof(uint64_t) == kernels::max_argument_size);

constexpr auto offsets = kernels::offsets_from<TB_GENERATED_KERNEL_ARGUMENTS>(0);

// What tb_generated_kernel.loaded is. It is never freed, because modules are not unloaded.
struct Loaded {
  std::mutex mutex;
  std::array<std::atomic<const Function *>, std::numeric_limits<c10::DeviceIndex>::max() + 1> functions{}; // by device
};

Loaded &loaded(tb_generated_kernel &kernel) {
  const std::atomic_ref<void *> place(kernel.loaded);
  void *known = place.load(std::memory_order_acquire);
  if (!known) {
    auto made = std::make_unique<Loaded>();
    if (place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) known = made.release();
  }
  return *static_cast<Loaded *>(known);
}

const Function &function_of(tb_generated_kernel &kernel, c10::DeviceIndex device) {
  Loaded &all = loaded(kernel);
  std::atomic<const Function *> &place = all.functions.at(static_cast<size_t>(device));
  if (const Function *known = place.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(all.mutex);
  if (const Function *known = place.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<const Function>(
      load_instance(device, {kernel.name, kernel.name, kernel.arguments, kernel.threads, kernel.synchronizing != 0, "",
                             kernel.text}));
  place.store(made.get(), std::memory_order_release);
  return *made.release();
}

} // namespace

std::string generated_kernels_obstacle() {
  if (runtime.closures) return "the driver runs the host's code on its streams, and not kernels of a device";
  if ((runtime.driver->groups & TB_GROUP_MODULE) == 0)
    return c10::str("the driver ", driver_info().name, " loads no compiled kernels: it lacks the group MODULE");
  if (!missing_compiler().empty()) return missing_compiler();
  try {
    make_compiler(0, architecture_of(0));
  } catch (const c10::Error &error) {
    return error.what_without_backtrace();
  }
  return "";
}

void load_generated(tb_generated_kernel *kernel, int32_t device) {
  function_of(*kernel, static_cast<c10::DeviceIndex>(device));
}

void launch_generated(tb_generated_kernel *kernel, int32_t number, int64_t items, const uint64_t *arguments,
                      uint64_t count) {
  if (items <= 0) return;
  TORCH_CHECK(count <= TB_GENERATED_KERNEL_ARGUMENTS, "The kernel ", kernel->name, " has ", count,
              " arguments, and one takes ", TB_GENERATED_KERNEL_ARGUMENTS, ". Compute less in one kernel");
  const auto device = static_cast<c10::DeviceIndex>(number);
  const Function &function = function_of(*kernel, device);
  const tb_launch_argument kind{TB_LAUNCH_ARGUMENT_STRUCT, kernel->pointers, offsets.data()};
  const tb_launch_arguments pointers{sizeof pointers, TB_EXTENSION_LAUNCH_ARGUMENTS, nullptr, &kind};
  const unsigned blocks = kernel->synchronizing ? blocks_of_rows(items) : blocks_of_elements(items, function.threads);
  launch(device, function, blocks, 1, function.threads, {arguments, count * sizeof *arguments, pointers}, kernel->name);
}

} // namespace tb::ops::jit
