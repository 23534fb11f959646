// The table's functions about kernels (MODULE).
#include <climits>
#include <cstring>

#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

// What the library's compiler or loader said.
struct Log {
  char text[4096] = {};
};

CUresult load(const Api &api, const std::vector<char> &image, Log *log, CUmodule *out) {
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log->text, reinterpret_cast<void *>(sizeof log->text - 1)}; // a number in a pointer's place
  const CUresult result = api.cuModuleLoadDataEx(out, image.data(), 2, options, values);
  log->text[sizeof log->text - 1] = 0;
  return result;
}

bool is_elf(const void *image, uint64_t size) { return size >= 4 && std::memcmp(image, "\177ELF", 4) == 0; }

template <class T> T read(const void *image, uint64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char *>(image) + offset, sizeof value);
  return value;
}

// libcuda does not get the size and believes the headers: it would read past the end of an image that was cut off.
bool is_cut_off(const void *image, uint64_t size) {
  if (size >= 16 && read<uint32_t>(image, 0) == 0xBA55ED50) // a fatbinary: header size, then that of the rest
    return read<uint16_t>(image, 6) + read<uint64_t>(image, 8) > size;
  if (!is_elf(image, size)) return false; // PTX ends with the zero that is put after it
  constexpr uint64_t header = 64;         // of a 64-bit ELF file; its tables of segments and sections
  if (size < header) return true;
  const auto ends = [&](uint64_t offset, uint64_t entry, uint64_t count) {
    const uint64_t begin = read<uint64_t>(image, offset);
    const uint64_t length = uint64_t(read<uint16_t>(image, entry)) * read<uint16_t>(image, count);
    return begin > size || length > size - begin;
  };
  return ends(32, 54, 56) || ends(40, 58, 60);
}

tb_status check_launch(Driver &driver, const Function &function, const tb_launch *config) {
  if (const tb_status status = driver.require(config, "config")) return status;
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (config->grid[axis] == 0 || config->block[axis] == 0)
      return fail(driver.host, TB_INVALID_ARGUMENT, "a size of the grid or the block is 0");
    threads *= config->block[axis];
  }
  if (threads > static_cast<uint64_t>(function.max_threads))
    return fail(driver.host, TB_INVALID_ARGUMENT, "a block of %llu threads; this kernel takes up to %d",
                static_cast<unsigned long long>(threads), function.max_threads);
  if (config->arg_count && !config->args) return fail(driver.host, TB_INVALID_ARGUMENT, "args is NULL");
  if (config->shared_size > INT_MAX)
    return fail(driver.host, TB_INVALID_ARGUMENT, "no device has that much shared memory");
  return TB_OK;
}

// More than the usual shared memory is to be asked for once a function.
tb_status allow_shared(Driver &driver, Function &function, uint64_t size) {
  if (size <= function.dynamic_shared) return TB_OK;
  const CUresult result = driver.api.cuFuncSetAttribute(
      function.native, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(size));
  if (const tb_status status = driver.report(function.device, result, "cuFuncSetAttribute")) return status;
  function.dynamic_shared = size;
  return TB_OK;
}

} // namespace

namespace slots {

tb_status module_load(tb_driver *self, int32_t number, const void *image, uint64_t size, const char *,
                      tb_module **out) {
  const Given given{{{image, "image"}, {out, "out"}}};
  return with_device(self, number, given, [&](Driver &driver, Device &device) -> tb_status {
    if (size == 0 || is_cut_off(image, size))
      return fail(driver.host, TB_INVALID_ARGUMENT, "the image of %llu bytes is %s",
                  static_cast<unsigned long long>(size), size ? "cut off: give all of it" : "empty");
    driver.reap_modules(device, false);
    const auto *bytes = static_cast<const char *>(image);
    std::vector<char> whole(bytes, bytes + size);
    whole.push_back(0); // PTX is a text
    Log log;
    CUmodule native = nullptr;
    const CUresult result = load(driver.api, whole, &log, &native);
    const char *remedy = *log.text ? log.text : nullptr;
    if (const tb_status status = driver.report(device, result, "cuModuleLoadDataEx", remedy)) return status;
    *out = (new Module{{device, native, device.generation}, {}, {}})->handle();
    driver.live.modules.fetch_add(1);
    return TB_OK;
  });
}

tb_status module_unload(tb_driver *self, tb_module *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "module")) return status;
    Module *module = Module::of(handle);
    Device &device = module->device;
    if (module->generation == device.generation) {
      {
        std::lock_guard lock(device.mutex);
        device.unloaded.push_back(module->native); // launches that are queued still need it
      }
      const Current current(driver, device);
      if (current.status == TB_OK) driver.reap_modules(device, false);
    }
    driver.live.modules.fetch_sub(1);
    delete module;
    return TB_OK;
  });
}

tb_status module_function(tb_driver *self, tb_module *handle, const char *name, tb_function **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Module *module = driver.usable_object<Module>(handle, "module", &status);
    if (!module) return status;
    if ((status = driver.require(name, "name"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    std::lock_guard lock(module->mutex);
    auto found = module->functions.find(name);
    if (found == module->functions.end()) {
      const Current current(driver, module->device);
      if (current.status) return current.status;
      CUfunction native = nullptr;
      const CUresult result = driver.api.cuModuleGetFunction(&native, module->native, name);
      if ((status = driver.report(module->device, result, "cuModuleGetFunction"))) return status;
      int threads = 0;
      status = driver.report(module->device,
                             driver.api.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, native),
                             "cuFuncGetAttribute");
      if (status) return status;
      auto function = std::make_unique<Function>(module->device, module->generation, native, threads);
      found = module->functions.emplace(name, std::move(function)).first;
    }
    *out = reinterpret_cast<tb_function *>(found->second.get());
    return TB_OK;
  });
}

tb_status module_global(tb_driver *self, tb_module *handle, const char *name, void **out, uint64_t *out_size) {
  return with_object<Module>(self, handle, "module", {{{name, "name"}, {out, "out"}, {out_size, "out_size"}}},
                             [&](Driver &driver, Module &module) -> tb_status {
                               tb_status status = TB_OK;
                               CUdeviceptr address = 0;
                               size_t size = 0;
                               const CUresult result =
                                   driver.api.cuModuleGetGlobal(&address, &size, module.native, name);
                               if ((status = driver.report(module.device, result, "cuModuleGetGlobal"))) return status;
                               *out = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
                               *out_size = size;
                               return TB_OK;
                             });
}

tb_status function_get_info(tb_driver *self, tb_function *handle, tb_function_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "function")) return status;
    const Function &function = *reinterpret_cast<Function *>(handle);
    const Current current(driver, function.device);
    if (current.status) return current.status;
    tb_function_info info = {};
    info.max_threads = static_cast<uint32_t>(function.max_threads);
    tb_status status = TB_OK;
    const auto ask = [&](int which) { // keeps the first failure
      int value = 0;
      const CUresult result = driver.api.cuFuncGetAttribute(&value, which, function.native);
      if (status == TB_OK) status = driver.report(function.device, result, "cuFuncGetAttribute");
      return value;
    };
    info.registers = static_cast<uint32_t>(ask(CU_FUNC_ATTRIBUTE_NUM_REGS));
    info.shared_size = static_cast<uint32_t>(ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    info.local_size = static_cast<uint64_t>(ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    if (status) return status;
    return fill_info(driver.host, info, out);
  });
}

tb_status launch(tb_driver *self, tb_stream *handle, tb_function *function_handle, const tb_launch *config) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.usable_object<Stream>(handle, "stream", &status);
    if (!stream) return status;
    if ((status = driver.require(function_handle, "function"))) return status;
    Function &function = *reinterpret_cast<Function *>(function_handle);
    if (&function.device != &stream->device || function.generation != stream->generation)
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the function was loaded on device %d, or before its reset, and the "
                  "stream is device %d's",
                  function.device.number, stream->device.number);
    if ((status = check_launch(driver, function, config))) return status;
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    if ((status = allow_shared(driver, function, config->shared_size))) return status;
    const CUresult result =
        driver.api.cuLaunchKernel(function.native, config->grid[0], config->grid[1], config->grid[2], config->block[0],
                                  config->block[1], config->block[2], static_cast<unsigned>(config->shared_size),
                                  stream->native, const_cast<void **>(config->args), nullptr);
    return driver.report(stream->device, result, "cuLaunchKernel");
  });
}

} // namespace slots
} // namespace tb::drivers::cuda
