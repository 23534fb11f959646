// module_api.cpp -- images, kernels and launches.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "capture.h"
#include "module.h"

namespace simcuda {
namespace {

// The loader takes an object for loaded already whose name it knows, and keeps one that has destructors of a thread that
// lives, also after dlclose. So each load has a name of its own: the same folder in other words.
std::string own_name(int file) {
  static uint64_t next = 0; // under the world's lock
  std::string name = "/proc/self/fd";
  const uint64_t serial = next++;
  for (int bit = 0; bit < 64; ++bit) name += serial >> bit & 1 ? "/." : "/";
  return name + "/" + std::to_string(file);
}

bool load(const std::string &image, Module *module) {
  module->file = memfd_create("simcuda-image", MFD_CLOEXEC);
  if (module->file < 0 || write(module->file, image.data(), image.size()) != static_cast<ssize_t>(image.size()))
    return false;
  module->library = dlopen(own_name(module->file).c_str(), RTLD_NOW | RTLD_LOCAL);
  return module->library != nullptr;
}

// The size of an image, which is read from its header because no argument has it. 0 if it is not an image.
size_t size_of(const void *image) {
  ElfW(Ehdr) header;
  std::memcpy(&header, image, SELFMAG);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
}

void tell_log(unsigned count, const int *options, void **values, const char *text) {
  size_t room = 0;
  char *buffer = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = reinterpret_cast<size_t>(values[i]);
  }
  if (buffer && room) std::snprintf(buffer, room, "%s", text);
}

CUresult load_module(CUmodule *out, const void *image, unsigned count, int *options, void **values) {
  World &all = world();
  Lock lock(all.mutex);
  CUresult result;
  Context *context = current_context(&result);
  if (!context) return result;
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  const size_t size = size_of(image);
  if (size == 0) {
    tell_log(count, options, values, "the simulated compiler finds neither an image nor PTX");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto module = std::make_shared<Module>();
  module->context = context;
  if (!load(std::string(static_cast<const char *>(image), size), module.get())) {
    const char *reason = dlerror();
    tell_log(count, options, values, reason ? reason : "no memory for a file");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  all.modules[module.get()] = module;
  *out = reinterpret_cast<CUmodule>(module.get());
  return CUDA_SUCCESS;
}

} // namespace

Module::~Module() {
  if (library) dlclose(library);
  if (file >= 0) close(file);
}

} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, int *options, void **values) {
  return call<"cuModuleLoadDataEx">([&] { return load_module(out, image, count, options, values); });
}

extern "C" CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  return call<"cuModuleLoadData">([&] { return load_module(out, image, 0, nullptr, nullptr); });
}

extern "C" CUresult cuModuleUnload(CUmodule handle) {
  return call<"cuModuleUnload">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto module = find(all.modules, handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto &[name, kernel] : module->kernels) all.kernels.erase(kernel);
    std::erase_if(all.ranges, [&](const auto &range) {
      return range.second.kind == Kind::variable && range.second.offset == reinterpret_cast<uintptr_t>(module.get());
    });
    all.modules.erase(handle);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
  return call<"cuModuleGetFunction">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto module = find(all.modules, handle);
    if (!module || !out || !name) return module ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    Kernel *&known = module->kernels[name];
    if (!known) {
      const auto *description = static_cast<const tb_simcuda_kernel *>(
          dlsym(module->library, ("simcuda_kernel_" + std::string(name)).c_str()));
      if (!description || description->magic != TB_SIMCUDA_KERNEL_MAGIC) {
        module->kernels.erase(name);
        return CUDA_ERROR_NOT_FOUND;
      }
      auto kernel = std::make_shared<Kernel>();
      kernel->context = module->context;
      kernel->module = module;
      kernel->description = description;
      all.kernels[kernel.get()] = kernel;
      known = kernel.get();
    }
    *out = reinterpret_cast<CUfunction>(known);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule handle, const char *name) {
  return call<"cuModuleGetGlobal_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto module = find(all.modules, handle);
    if (!module || !name) return CUDA_ERROR_INVALID_HANDLE;
    void *found = *name ? dlsym(module->library, name) : nullptr;
    Dl_info facts;
    const ElfW(Sym) *symbol = nullptr;
    if (!found ||
        !dladdr1(found, &facts, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)), RTLD_DL_SYMENT) ||
        !symbol)
      return CUDA_ERROR_NOT_FOUND;
    Range range{
        Kind::variable, symbol->st_size, module->context->device, static_cast<std::byte *>(found), 0, 0, {}, {}, {}};
    range.offset = reinterpret_cast<uintptr_t>(module.get()); // the module that owns it
    all.ranges[reinterpret_cast<uintptr_t>(found)] = range;
    if (address) *address = reinterpret_cast<uintptr_t>(found);
    if (size) *size = symbol->st_size;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction handle) {
  return call<"cuFuncGetAttribute">([&]() -> CUresult {
    Lock lock(world().mutex);
    const auto kernel = find(world().kernels, handle);
    if (!kernel || !value) return CUDA_ERROR_INVALID_HANDLE;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? static_cast<int>(kernel->description->max_threads)
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                  : 0;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
  return call<"cuFuncSetAttribute">([&]() -> CUresult {
    Lock lock(world().mutex);
    const auto kernel = find(world().kernels, handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 96 << 10)
      return CUDA_ERROR_INVALID_VALUE;
    kernel->dynamic_shared = value;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream_handle, void **arguments, void **extra) {
  return call<"cuLaunchKernel">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(stream_handle, &result);
    if (!stream) return result;
    const auto kernel = find(world().kernels, handle);
    const auto module = kernel ? kernel->module.lock() : nullptr;
    if (!module || stream->context != kernel->context || kernel->context != current.back())
      return CUDA_ERROR_INVALID_HANDLE;
    const tb_simcuda_kernel &description = *kernel->description;
    const uint64_t threads = uint64_t(block_x) * block_y * block_z, blocks = uint64_t(grid_x) * grid_y * grid_z;
    if (extra || threads == 0 || blocks == 0 || threads > description.max_threads || block_z > 64 || grid_y > 65535 ||
        grid_z > 65535 || shared > static_cast<unsigned>(kernel->dynamic_shared) ||
        (description.argument_count && !arguments))
      return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::vector<std::byte>> values;
    for (uint32_t i = 0; i < description.argument_count; ++i) {
      const auto *value = static_cast<const std::byte *>(arguments[i]);
      values.emplace_back(value, value + description.argument_sizes[i]);
    }
    tb_simcuda_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, nullptr};
    return submit(*stream, Work::kernel, [module, run = description.run, launch, values](CUresult failed) mutable {
      if (failed) return CUDA_SUCCESS;
      std::vector<void *> pointers;
      for (auto &value : values) pointers.push_back(value.data());
      launch.arguments = pointers.data();
      const Window window;
      run(&launch);
      return CUDA_SUCCESS;
    });
  });
}
