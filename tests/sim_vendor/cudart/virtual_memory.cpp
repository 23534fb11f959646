// virtual_memory.cpp -- the driver's virtual memory: a handle is a piece of one sparse file, which is mapped at the
// caller's addresses.
#include "emulation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string_view>

namespace emulation {
namespace {

constexpr uint64_t granularity = uint64_t{2} << 20;

struct Physical {
  uint64_t offset, size;
  uint32_t references; // by the handle and by each mapping
};

std::map<char *, Physical *> mapped; // guarded by world().mutex, as everything below
uint64_t file_end = 0;

int file() {
  static const int made = memfd_create("cudart-emulation", MFD_CLOEXEC);
  return made;
}

void drop(Physical *physical) {
  if (--physical->references) return;
  fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical->offset),
            static_cast<off_t>(physical->size));
  discharge(physical->size);
  delete physical;
}

CUresult CUDAAPI granularity_of(size_t *out, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
  *out = granularity;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI reserve(CUdeviceptr *out, size_t size, size_t, CUdeviceptr, unsigned long long) {
  count(Call::reserve);
  // mmap only aligns to host pages, so a larger range is mapped and its ends are unmapped.
  uint64_t length = size + granularity;
  void *base = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t begin = reinterpret_cast<uint64_t>(base), aligned = (begin + granularity - 1) / granularity * granularity;
  if (aligned > begin) munmap(base, aligned - begin);
  uint64_t end = begin + length;
  if (end > aligned + size) munmap(reinterpret_cast<void *>(aligned + size), end - aligned - size);
  *out = aligned;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI unreserve(CUdeviceptr address, size_t size) {
  std::lock_guard guard(world().mutex);
  auto inside = mapped.lower_bound(reinterpret_cast<char *>(address));
  if (inside != mapped.end() && inside->first < reinterpret_cast<char *>(address) + size)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void *>(address), size);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI create(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *,
                        unsigned long long) {
  count(Call::create);
  if (!size || size % granularity) return CUDA_ERROR_INVALID_VALUE;
  if (!charge(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard guard(world().mutex);
  auto *made = new Physical{file_end, size, 1};
  file_end += size;
  if (ftruncate(file(), static_cast<off_t>(file_end)) != 0) {
    drop(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(made);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI release(CUmemGenericAllocationHandle handle) {
  std::lock_guard guard(world().mutex);
  drop(reinterpret_cast<Physical *>(handle));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                     unsigned long long) {
  count(Call::map);
  auto *physical = reinterpret_cast<Physical *>(handle);
  // CUDA does not support an offset into a handle either.
  if (offset || size != physical->size || address % granularity) return CUDA_ERROR_INVALID_VALUE;
  auto *start = reinterpret_cast<char *>(address);
  std::lock_guard guard(world().mutex);
  if (!mapped.emplace(start, physical).second) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(start, size, PROT_NONE, MAP_SHARED | MAP_FIXED, file(), static_cast<off_t>(physical->offset)) != start) {
    mapped.erase(start);
    return CUDA_ERROR_MAP_FAILED;
  }
  ++physical->references;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI unmap(CUdeviceptr address, size_t size) {
  count(Call::unmap);
  std::lock_guard guard(world().mutex);
  for (auto *at = reinterpret_cast<char *>(address), *end = at + size; at < end;) {
    auto found = mapped.find(at);
    if (found == mapped.end() || at + found->second->size > end) return CUDA_ERROR_INVALID_VALUE;
    uint64_t length = found->second->size;
    mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    drop(found->second);
    mapped.erase(found);
    at += length;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *, size_t) {
  count(Call::access);
  return mprotect(reinterpret_cast<void *>(address), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI error_string(CUresult error, const char **out) {
  *out = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of the emulated CUDA driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI device_get(CUdevice *out, int number) {
  *out = number;
  return number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI device_attribute(int *out, CUdevice_attribute attribute, CUdevice) {
  *out = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  return CUDA_SUCCESS;
}

// Functions that are not emulated exist, because programs look up all functions at once, and fail when they are called.
CUresult CUDAAPI not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class Function> void *address_of(Function function) { return reinterpret_cast<void *>(function); }

} // namespace

void *driver_function(const char *name) {
  static const std::map<std::string_view, void *> functions = {
      {"cuMemGetAllocationGranularity", address_of(granularity_of)},
      {"cuMemAddressReserve", address_of(reserve)},
      {"cuMemAddressFree", address_of(unreserve)},
      {"cuMemCreate", address_of(create)},
      {"cuMemRelease", address_of(release)},
      {"cuMemMap", address_of(map)},
      {"cuMemUnmap", address_of(unmap)},
      {"cuMemSetAccess", address_of(set_access)},
      {"cuGetErrorString", address_of(error_string)},
      {"cuDeviceGet", address_of(device_get)},
      {"cuDeviceGetAttribute", address_of(device_attribute)},
  };
  auto found = functions.find(name);
  return found == functions.end() ? address_of(not_supported) : found->second;
}

} // namespace emulation
