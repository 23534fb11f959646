// Programs are compiled and loaded once for each device.
#include "backends/jit/device_kernel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_cache.h"
#include "backends/jit/compiler/image_pack.h"
#include "backends/jit/device_facts.h"

namespace tb::ops::jit {
namespace {

std::mutex used_mutex;
std::map<std::string, Instance> used; // by body

void note_use(const Instance &instance) {
  const std::lock_guard lock(used_mutex);
  used.emplace(instance.body, instance);
}

Instance instance_of(const Kernel &kernel, c10::DeviceIndex device) {
  return {std::string(kernel.header),    kernel.body,
          std::string(kernel.arguments), kernel.threads,
          kernel.synchronizing,          kernel_defines(facts_of(device))};
}

// One device's programs. Modules stay loaded, because the functions belong to them.
class Programs {
public:
  explicit Programs(c10::DeviceIndex device)
      : device_(device), architecture_(architecture_of(device)), packs_(find_image_packs(architecture_)) {}

  Function load(const Instance &instance) {
    {
      const std::unique_lock lock(mutex_);
      if (!compiler_) compiler_ = make_compiler(device_, architecture_);
    }
    return load_image(instance, compiled(instance)); // not locked, so that threads compile side by side
  }

  Function find(const Kernel &kernel) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = functions_.find(kernel.body); known != functions_.end()) return known->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto known = functions_.find(kernel.body); known != functions_.end()) return known->second;
    const Instance instance = instance_of(kernel, device_);
    return functions_.emplace(kernel.body, load_image(instance, find_image(instance))).first->second;
  }

private:
  std::string find_image(const Instance &instance) {
    note_use(instance);
    for (const ImagePack &pack : packs_)
      if (std::string image = pack.find(instance); !image.empty()) return count_packed_image(), image;
    if (!compiler_) {
      if (!packs_.empty() && !compiler_obstacle(architecture_).empty()) refuse(instance);
      compiler_ = make_compiler(device_, architecture_);
    }
    return compiled(instance);
  }

  // Takes the image from the cache, or compiles it. There is a compiler already.
  std::string compiled(const Instance &instance) const {
    const Source source = make_source(instance, compiler_->shim());
    return cached_image(compiler_->identity() + "\n" + source.text, [&] { return compiler_->compile(source); });
  }

  Function load_image(const Instance &instance, const std::string &image) const {
    Function function =
        load_function(device_, image, entry_name, ("module_load of the kernel " + instance.body).c_str());
    function.threads = std::min(function.threads, instance.threads);
    return function;
  }

  [[noreturn]] void refuse(const Instance &instance) {
    std::string folders;
    for (const ImagePack &pack : packs_) folders += (folders.empty() ? "" : ", ") + pack.folder;
    C10_THROW_ERROR(
        Error,
        c10::str("the kernel ", instance.body, " is not in the packs of images for the architecture ", architecture_,
                 " (", folders,
                 "), and no compiler is known for it. The packs are made for other kernels "
                 "than those of this tb-ops, or do not have it: python -m tb_ops.device_kernels.pack makes one"));
  }

  c10::DeviceIndex device_;
  std::string architecture_;
  std::vector<ImagePack> packs_;
  std::unique_ptr<Compiler> compiler_; // made when the first image is not in a pack
  std::shared_mutex mutex_;
  std::unordered_map<std::string, Function> functions_; // by body, which names one kernel
};

Programs &programs(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto *all = new std::map<c10::DeviceIndex, std::unique_ptr<Programs>>(); // modules outlive static objects
  const std::lock_guard lock(mutex);
  std::unique_ptr<Programs> &place = (*all)[device];
  if (!place) place = std::make_unique<Programs>(device);
  return *place;
}

} // namespace

std::string architecture_of(c10::DeviceIndex device) { return device_info(device).arch; }

std::vector<Instance> used_instances() {
  const std::lock_guard lock(used_mutex);
  std::vector<Instance> out;
  for (const auto &[body, instance] : used) out.push_back(instance);
  return out;
}

Function find(c10::DeviceIndex device, const Kernel &kernel) { return programs(device).find(kernel); }

unsigned threads_of_row(c10::DeviceIndex device, const Function &function) {
  constexpr unsigned few = 4; // on Intel's runtime, 16 make sums four times as slow, and softmax twice as fast
  return facts_of(device).vector_size ? std::min(function.threads, few) : function.threads;
}

Function load_instance(c10::DeviceIndex device, Instance instance) {
  instance.defines = kernel_defines(facts_of(device));
  return programs(device).load(instance);
}

void launch(c10::DeviceIndex device, const Function &function, unsigned blocks_x, unsigned blocks_y, unsigned threads,
            const Argument &argument, const char *name) {
  const uint64_t sizes[] = {argument.size};
  const void *const values[] = {argument.value};
  tb_launch config{};
  config.struct_size = sizeof config;
  config.arg_count = 1;
  config.grid[0] = blocks_x, config.grid[1] = blocks_y, config.grid[2] = 1;
  config.block[0] = threads, config.block[1] = config.block[2] = 1;
  config.args = values;
  config.arg_sizes = sizes;
  config.next = &argument.pointers;
  launch_function(device, function, config, name);
}

} // namespace tb::ops::jit
