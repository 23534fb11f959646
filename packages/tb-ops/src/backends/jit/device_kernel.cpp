// Programs are compiled and loaded once for each device.
#include "backends/jit/device_kernel.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_cache.h"
#include "backends/jit/device_facts.h"
#include "launch/launch_blocking.h"
#include "runtime/synchronize.h"

namespace tb::ops::jit {
namespace {

// Returns the names and contents of all headers. They are part of the cache's keys, so that kernels are compiled again
// after a header has changed.
std::string read_headers() {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(header_folder())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path().lexically_relative(header_folder()).string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  std::string text;
  for (const auto &[name, content] : files) text += name + "\n" + content;
  return text;
}

std::string architecture_of(c10::DeviceIndex device) {
  tb_device_info info{};
  info.struct_size = sizeof info;
  check(runtime.device.device_info(device, &info), "device_get_info", device);
  return info.arch;
}

constexpr char entry[] = "tb_entry";

std::string source_of(const Kernel &kernel, const DeviceFacts &facts) {
  return std::string(facts.float64 ? "" : "#define TB_NO_FLOAT64\n") + (facts.fma ? "" : "#define TB_NO_FMA\n") +
         "#include \"" + std::string(kernel.header) + "\"\nusing namespace tb::kernels;\nTB_ENTRY(" + entry + ", (" +
         kernel.body + "), " + std::string(kernel.arguments) + ", " + std::to_string(kernel.threads) + ", " +
         (kernel.synchronizing ? "true" : "false") + ")\n";
}

// One device's programs. Modules stay loaded, because the functions belong to them.
class Programs {
public:
  explicit Programs(c10::DeviceIndex device)
      : device_(device), compiler_(make_compiler(architecture_of(device))),
        key_(compiler_->identity() + "\n" + read_headers() + "\n") {}

  Function find(const Kernel &kernel) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto known = functions_.find(kernel.body); known != functions_.end()) return known->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto known = functions_.find(kernel.body); known != functions_.end()) return known->second;
    const std::string source = source_of(kernel, facts_of(device_));
    const std::string image = cached_image(key_ + source, [&] { return compiler_->compile(source); });
    tb_module *module = nullptr;
    tb_function *handle = nullptr;
    check(runtime.driver->module_load(runtime.self, device_, image.data(), image.size(), nullptr, &module),
          "module_load", device_);
    check(runtime.driver->module_function(runtime.self, module, entry, &handle), "module_function", device_);
    tb_function_info info{};
    info.struct_size = sizeof info;
    check(runtime.driver->function_get_info(runtime.self, handle, &info), "function_get_info", device_);
    const Function function{handle, std::min(info.max_threads, kernel.threads)};
    return functions_.emplace(kernel.body, function).first->second;
  }

private:
  c10::DeviceIndex device_;
  std::unique_ptr<Compiler> compiler_;
  std::string key_;
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

Function find(c10::DeviceIndex device, const Kernel &kernel) { return programs(device).find(kernel); }

void launch(c10::DeviceIndex device, const Function &function, unsigned blocks_x, unsigned blocks_y, unsigned threads,
            const Argument &argument) {
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
  check(runtime.driver->launch(runtime.self, current_stream(device), function.handle, &config), "launch", device);
  if (launch_blocking()) synchronize(device, "launch");
}

} // namespace tb::ops::jit
