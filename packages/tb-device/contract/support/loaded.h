// The image of the kit's kernels (tb/contract_kernels.h), loaded, and launches of them.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "contract/support/probe.h"
#include "tb/contract_kernels.h"

namespace tb::contract {

inline std::vector<char> image_of(Kit &kit) {
  const std::string &path = kit.target().image;
  if (path.empty())
    throw NotOffered("no image of the kit's kernels: compile those of tb/contract_kernels.h and give it by --image");
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) throw Failed("the image " + path + " cannot be read");
  return bytes;
}

class Module {
public:
  explicit Module(Kit &kit, int32_t device = 0) : kit_(kit) {
    const std::vector<char> image = image_of(kit);
    CHECK_OK(kit.api().module_load(kit.self(), device, image.data(), image.size(), "", &module_));
  }
  ~Module() { unload(); }
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  operator tb_module *() const { return module_; }
  Kit &kit() const { return kit_; }
  tb_function *function(const char *name) const {
    Kit &kit = kit_;
    tb_function *found = nullptr;
    CHECK_OK(kit.api().module_function(kit.self(), module_, name, &found));
    return found;
  }
  // NotOffered where the image lacks the kernel, which it may.
  tb_function *optional_function(const char *name) const {
    tb_function *found = nullptr;
    if (kit_.api().module_function(kit_.self(), module_, name, &found) == TB_OK) return found;
    kit_.take_error();
    throw NotOffered(std::string("the image has no kernel ") + name);
  }
  void unload() {
    if (module_) kit_.api().module_unload(kit_.self(), std::exchange(module_, nullptr));
  }

private:
  Kit &kit_;
  tb_module *module_ = nullptr;
};

// A launch of one dimension with its arguments' values.
template <class... Values> class Launch {
public:
  Launch(uint32_t blocks, uint32_t threads, Values... values) : values_(values...) {
    config_.struct_size = sizeof config_;
    config_.arg_count = sizeof...(Values);
    for (int axis = 0; axis < 3; ++axis) config_.grid[axis] = config_.block[axis] = 1;
    config_.grid[0] = blocks;
    config_.block[0] = threads;
    std::apply(
        [this](const auto &...value) {
          size_t place = 0;
          ((arguments_[place] = &value, sizes_[place] = sizeof value, ++place), ...);
        },
        values_);
    config_.args = arguments_;
    config_.arg_sizes = sizes_;
  }
  Launch(const Launch &) = delete;
  Launch &operator=(const Launch &) = delete;
  tb_status on(Kit &kit, tb_stream *stream, tb_function *function) const {
    return kit.api().launch(kit.self(), stream, function, &config_);
  }
  tb_status on(const Module &module, tb_stream *stream, const char *kernel) const {
    return on(module.kit(), stream, module.function(kernel));
  }
  tb_launch &config() { return config_; }
  std::tuple<Values...> &values() { return values_; }

private:
  std::tuple<Values...> values_;
  const void *arguments_[sizeof...(Values) + 1] = {};
  uint64_t sizes_[sizeof...(Values) + 1] = {};
  tb_launch config_{};
};

} // namespace tb::contract
