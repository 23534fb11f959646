// memory_api.cpp -- device memory, pinned and registered memory, attributes of pointers, stream-ordered memory.
#include <sys/mman.h>

#include "capture.h"

namespace simcuda {
namespace {

constexpr uint64_t kUnit = 512, kPage = 4096;

uint64_t rounded(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

CUresult allocate(Context &context, Kind kind, CUdeviceptr *out, size_t size) {
  World &all = world();
  Arena &arena = all.devices[static_cast<size_t>(context.device)]->arena;
  if (!out || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > arena.capacity()) return CUDA_ERROR_OUT_OF_MEMORY; // checked first, because rounding up could overflow
  const uint64_t charged = rounded(size, kUnit), offset = arena.take(charged, kUnit);
  if (offset == Arena::kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range{kind, size, context.device, arena.inner(offset), offset, charged, nullptr, {}, {}};
  if (all.windows) arena.protect(true); // a kernel is running and may access the new part too
  all.ranges[arena.outer(offset)] = range;
  *out = arena.outer(offset);
  return CUDA_SUCCESS;
}

// The block that starts at an address.
std::map<uintptr_t, Range>::iterator block(CUdeviceptr address, Kind kind, Kind other) {
  World &all = world();
  const auto found = all.ranges.find(address);
  if (found == all.ranges.end() || (found->second.kind != kind && found->second.kind != other)) return all.ranges.end();
  return found;
}

// Waits for all queued work, which may still use memory that is about to be freed. The real library's functions wait
// too.
void wait_for_work(Lock &lock) {
  for (const auto &device : world().devices)
    if (device->context.alive) drain(device->context, lock);
}

bool overlaps(uintptr_t begin, uint64_t size) {
  World &all = world();
  if (all.holding(begin) != all.ranges.end()) return true;
  const auto next = all.ranges.lower_bound(begin);
  return next != all.ranges.end() && next->first < begin + size;
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size) {
  return call<"cuMemAlloc_v2">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    if ((result = check_capture_mode(*context))) return result;
    return allocate(*context, Kind::device, out, size);
  });
}

extern "C" CUresult cuMemFree_v2(CUdeviceptr address) {
  return call<"cuMemFree_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context && result < CUDA_ERROR_ILLEGAL_ADDRESS) return result;
    if (!address) return CUDA_SUCCESS;
    wait_for_work(lock);
    const auto found = block(address, Kind::device, Kind::pool);
    if (found == all.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
    all.drop(found);
    return result; // the error of a broken context, although the memory is freed
  });
}

extern "C" CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call<"cuMemGetInfo_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    const Arena &arena = all.devices[static_cast<size_t>(context->device)]->arena;
    *total = arena.capacity();
    *free = arena.capacity() - arena.used();
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
  return call<"cuMemGetAddressRange_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = all.holding(address);
    if (found == all.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
    if (base) *base = found->first;
    if (size) *size = found->second.size;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  return call<"cuMemHostAlloc">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    if (!out || size == 0 || (flags & ~7u)) return CUDA_ERROR_INVALID_VALUE;
    if (size > uint64_t(1) << 46) return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t charged = rounded(size, kPage);
    void *memory = mmap(nullptr, charged, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    all.ranges[reinterpret_cast<uintptr_t>(memory)] = {
        Kind::host, size, context->device, static_cast<std::byte *>(memory), 0, charged, nullptr, {}, {}};
    *out = memory;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemAllocHost_v2(void **out, size_t size) { return cuMemHostAlloc(out, size, 0); }

extern "C" CUresult cuMemFreeHost(void *address) {
  return call<"cuMemFreeHost">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    wait_for_work(lock);
    const auto found = block(reinterpret_cast<CUdeviceptr>(address), Kind::host, Kind::host);
    if (found == all.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
    all.drop(found);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
  return call<"cuMemHostRegister_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (!address || size == 0 || (flags & ~15u)) return CUDA_ERROR_INVALID_VALUE;
    if (overlaps(begin, size)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    all.ranges[begin] = {
        Kind::registered, size, context->device, static_cast<std::byte *>(address), 0, 0, nullptr, {}, {}};
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemHostUnregister(void *address) {
  return call<"cuMemHostUnregister">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = block(reinterpret_cast<CUdeviceptr>(address), Kind::registered, Kind::registered);
    if (found == all.ranges.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    all.ranges.erase(found);
    return CUDA_SUCCESS;
  });
}

// An unknown address is not an error; its attributes are 0.
extern "C" CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address) {
  return call<"cuPointerGetAttributes">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    const auto found = all.holding(address);
    const bool known = found != all.ranges.end();
    const bool on_host = known && (found->second.kind == Kind::host || found->second.kind == Kind::registered);
    for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned *>(values[i]) = !known ? 0 : on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int *>(values[i]) = known ? found->second.device : -2;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr *>(values[i]) = known ? found->first : 0;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t *>(values[i]) = known ? found->second.size : 0;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
      }
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream handle) {
  return call<"cuMemAllocAsync">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
    return allocate(*stream->context, Kind::pool, out, size);
  });
}

extern "C" CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return call<"cuMemFreeAsync">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
    const auto found = block(address, Kind::pool, Kind::device);
    if (found == all.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
    queue_operation(*stream, [address](CUresult) {
      Lock later(world().mutex);
      const auto range = block(address, Kind::pool, Kind::device);
      if (range != world().ranges.end()) world().drop(range);
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}
