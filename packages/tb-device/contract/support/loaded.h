// The image of the kit's kernels (tb/contract_kernels.h), loaded, and launches of them.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "contract/support/probe.h"
#include "tb/contract_kernels.h"

namespace tb::contract {

// NotOffered where no image was given.
std::vector<char> image_of(Kit &kit);

class Module {
public:
  explicit Module(Kit &kit, int32_t device = 0);
  ~Module() { unload(); }
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  operator tb_module *() const { return module_; }
  Kit &kit() const { return kit_; }
  tb_function *function(const char *name) const;
  // NotOffered where the image lacks the kernel, which it may.
  tb_function *optional_function(const char *name) const;
  // A variable's address on the device. NotOffered where the driver has no module_global.
  void *variable(const char *name, uint64_t size) const;
  void unload();

private:
  Kit &kit_;
  tb_module *module_ = nullptr;
};

// A launch of one dimension, without its arguments.
class LaunchConfig {
public:
  LaunchConfig(uint32_t blocks, uint32_t threads, uint32_t argument_count, const uint64_t *sizes);
  LaunchConfig(const LaunchConfig &) = delete;
  LaunchConfig &operator=(const LaunchConfig &) = delete;
  tb_status on(Kit &kit, tb_stream *stream, tb_function *function) const;
  tb_status on(const Module &module, tb_stream *stream, const char *kernel) const;
  tb_launch &config() { return config_; }

private:
  tb_launch config_{};
};

// With its arguments' values.
template <class... Values> class Launch : public LaunchConfig {
public:
  Launch(uint32_t blocks, uint32_t threads, Values... values)
      : LaunchConfig(blocks, threads, sizeof...(Values), sizes), values_(values...) {
    config().args = arguments_;
    std::apply(
        [this](const auto &...value) {
          size_t place = 0;
          ((arguments_[place++] = &value), ...);
        },
        values_);
  }
  std::tuple<Values...> &values() { return values_; }

private:
  static constexpr uint64_t sizes[sizeof...(Values) + 1] = {sizeof(Values)...};
  std::tuple<Values...> values_;
  const void *arguments_[sizeof...(Values) + 1] = {};
};

} // namespace tb::contract
