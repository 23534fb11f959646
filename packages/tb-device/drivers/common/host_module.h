// Loaded kernels that run on the host: images are shared objects (tb/host_kernel.h).
//
// A module lives until module_unload and until the last launch that was queued or captured is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "drivers/common/reference.h"
#include "tb/host_kernel.h"

namespace tb::drivers {

class Module;

struct Function {
  Module *module;
  const char *name;
  tb_host_kernel entry;
  uint32_t max_threads;
  uint32_t shared_size;

  tb_function *handle() noexcept { return reinterpret_cast<tb_function *>(this); }
  static Function *of(tb_function *handle) noexcept { return reinterpret_cast<Function *>(handle); }
};

class Module {
public:
  // Where an image is loaded. `owner` distinguishes devices of the same number that belong to different drivers.
  struct Place {
    const tb_host *host;
    int32_t device;
    const void *owner;
  };
  // Copies the image. Fails with the loader's text.
  static tb_status load(const Place &place, const void *image, uint64_t size, Ref<Module> *out);
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  tb_module *handle() noexcept { return reinterpret_cast<tb_module *>(this); }
  static Module *of(tb_module *handle) noexcept { return reinterpret_cast<Module *>(handle); }

  const Place &place() const noexcept { return place_; }
  // The function belongs to the module. Fails with a text.
  tb_status function(const char *name, Function **out);
  tb_status global(const char *name, void **out, uint64_t *out_size);

private:
  Module(const Place &place, int file) : place_(place), file_(file) {}
  ~Module();
  struct Symbol;
  // type: STT_*. False when the object itself does not export such a symbol.
  bool look_up(const char *name, int type, Symbol *out) const noexcept;

  const Place place_;
  const int file_; // kept open for debuggers, which look for the object by its name
  void *library_ = nullptr;
  std::atomic<uint32_t> references_{1};
  std::mutex mutex_;
  std::map<std::string, Function> functions_; // those that were looked up
};

} // namespace tb::drivers
