// memory.cpp -- plain device and host memory, copies, and the count of used memory.
#include "emulation.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace emulation {
namespace {

// Uses mmap, because untouched memory then costs nothing: an emulated device may be larger than the machine's memory.
void *take(uint64_t size) {
  void *made = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return made == MAP_FAILED ? nullptr : made;
}

std::map<void *, uint64_t> blocks; // guarded by world().mutex

} // namespace

World &world() {
  static World only;
  return only;
}

bool charge(uint64_t bytes) {
  World &all = world();
  uint64_t before = all.used.fetch_add(bytes);
  if (bytes > all.capacity || before > all.capacity - bytes) {
    all.used -= bytes;
    return false;
  }
  uint64_t peak = all.peak;
  while (peak < before + bytes && !all.peak.compare_exchange_weak(peak, before + bytes)) {
  }
  return true;
}

void discharge(uint64_t bytes) { world().used -= bytes; }

} // namespace emulation

using namespace emulation;

CUDART_EMULATION_API cudaError_t cudaMalloc(void **out, size_t size) {
  count(Call::allocate);
  *out = nullptr;
  if (!size) return cudaSuccess;
  if (!charge(size)) return failed(cudaErrorMemoryAllocation);
  void *made = take(size);
  if (!made) {
    discharge(size);
    return failed(cudaErrorMemoryAllocation);
  }
  std::lock_guard guard(world().mutex);
  blocks[made] = size;
  *out = made;
  return cudaSuccess;
}

CUDART_EMULATION_API cudaError_t cudaFree(void *pointer) {
  count(Call::free);
  if (!pointer) return cudaSuccess;
  std::lock_guard guard(world().mutex);
  auto found = blocks.find(pointer);
  if (found == blocks.end()) return failed(cudaErrorInvalidValue);
  munmap(pointer, found->second);
  discharge(found->second);
  blocks.erase(found);
  return cudaSuccess;
}

CUDART_EMULATION_API cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaFreeAsync(void *, cudaStream_t) { return failed(cudaErrorNotSupported); }
CUDART_EMULATION_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *total = world().capacity;
  *free = *total - world().used;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
  memmove(to, from, size);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind,
                                                 cudaStream_t) {
  memmove(to, from, size);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t size, cudaStream_t) {
  memmove(to, from, size);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *, void *) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaIpcOpenMemHandle(void **, cudaIpcMemHandle_t, unsigned) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaIpcCloseMemHandle(void *) { return failed(cudaErrorNotSupported); }
CUDART_EMULATION_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) {
  return failed(cudaErrorNotSupported);
}
CUDART_EMULATION_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return failed(cudaErrorNotSupported); }

CUDART_EMULATION_API void cudart_emulation_set_capacity(uint64_t bytes) { world().capacity = bytes; }
CUDART_EMULATION_API uint64_t cudart_emulation_peak(void) { return world().peak; }
CUDART_EMULATION_API void cudart_emulation_reset_peak(void) { world().peak = world().used.load(); }
CUDART_EMULATION_API uint64_t cudart_emulation_calls(int call) {
  return call >= 0 && call < static_cast<int>(Call::count) ? world().calls[call].load() : 0;
}
