// Loaded kernels: shared objects of the host (tb/host_kernel.h) and their launches.
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

namespace tb::cpu {

class Device;
class Module;
class Stream;

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
  // The image is copied. Fails with the loader's text.
  static tb_status load(Device &device, const void *image, uint64_t size, Ref<Module> *out);
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  tb_module *handle() noexcept { return reinterpret_cast<tb_module *>(this); }
  static Module *of(tb_module *handle) noexcept { return reinterpret_cast<Module *>(handle); }

  Device &device() const noexcept { return device_; }
  // Borrowed from the module. Fails with a text.
  tb_status function(const char *name, Function **out);
  tb_status global(const char *name, void **out, uint64_t *out_size);

private:
  Module(Device &device, int file) : device_(device), file_(file) {}
  ~Module();
  struct Symbol;
  // type: STT_*. False when the object itself exports no such thing.
  bool look_up(const char *name, int type, Symbol *out) const noexcept;

  Device &device_;
  const int file_; // kept open: the loader knows the object by the descriptor's name
  void *library_ = nullptr;
  std::atomic<uint32_t> references_{1};
  std::mutex mutex_;
  std::map<std::string, Function> functions_; // that were asked for
};

// Queues a launch, arguments copied. Fails with a text.
tb_status launch(Stream &stream, Function &function, const tb_launch &config);

} // namespace tb::cpu
