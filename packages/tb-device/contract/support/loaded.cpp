// Loads the image and launches kernels.
#include "contract/support/loaded.h"

#include <algorithm>
#include <cstdio>

namespace tb::contract {

std::vector<char> image_of(Kit &kit) {
  const std::string &path = kit.target().image;
  if (path.empty())
    throw NotOffered("no image of the kit's kernels: compile those of tb/contract_kernels.h and give it by --image");
  std::vector<char> bytes;
  if (std::FILE *file = std::fopen(path.c_str(), "rb")) {
    std::fseek(file, 0, SEEK_END);
    bytes.resize(static_cast<size_t>(std::max(0L, std::ftell(file))));
    std::rewind(file);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
  }
  if (bytes.empty()) throw Failed("the image " + path + " cannot be read");
  return bytes;
}

Module::Module(Kit &kit, int32_t device) : kit_(kit) {
  const std::vector<char> image = image_of(kit);
  CHECK_OK(kit.api().module_load(kit.self(), device, image.data(), image.size(), "", &module_));
}

tb_function *Module::function(const char *name) const {
  Kit &kit = kit_;
  tb_function *found = nullptr;
  CHECK_OK(kit.api().module_function(kit.self(), module_, name, &found));
  return found;
}

tb_function *Module::optional_function(const char *name) const {
  tb_function *found = nullptr;
  if (kit_.api().module_function(kit_.self(), module_, name, &found) == TB_OK) return found;
  kit_.take_error();
  throw NotOffered(std::string("the image has no kernel ") + name);
}

void *Module::variable(const char *name, uint64_t size) const {
  Kit &kit = kit_;
  kit.need(kit.api().module_global, "module_global");
  void *address = nullptr;
  uint64_t found = 0;
  CHECK_OK(kit.api().module_global(kit.self(), module_, name, &address, &found));
  CHECK_EQUAL(found, size);
  return address;
}

void Module::unload() {
  if (module_) kit_.api().module_unload(kit_.self(), std::exchange(module_, nullptr));
}

LaunchConfig::LaunchConfig(uint32_t blocks, uint32_t threads, uint32_t argument_count, const uint64_t *sizes) {
  config_ = {sizeof config_, argument_count, {blocks, 1, 1}, {threads, 1, 1}, 0, nullptr, sizes, nullptr};
}

tb_status LaunchConfig::on(Kit &kit, tb_stream *stream, tb_function *function) const {
  return kit.api().launch(kit.self(), stream, function, &config_);
}

tb_status LaunchConfig::on(const Module &module, tb_stream *stream, const char *kernel) const {
  return on(module.kit(), stream, module.function(kernel));
}

} // namespace tb::contract
