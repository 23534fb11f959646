// vmm_api.cpp -- virtual memory: reserved addresses, and physical memory that is mapped to them.
#include <sys/mman.h>

#include "world.h"

namespace simcuda {
namespace {

constexpr uint64_t kGranularity = 2 << 20;

// Whether the whole range is inside one reservation.
bool reserved(uintptr_t address, uint64_t size) {
  const auto &all = world().reservations;
  auto found = all.upper_bound(address);
  if (found == all.begin()) return false;
  --found;
  return address - found->first <= found->second && size <= found->second - (address - found->first);
}

bool mapped(uintptr_t begin, uint64_t size) {
  World &all = world();
  if (all.holding(begin) != all.ranges.end()) return true;
  const auto next = all.ranges.lower_bound(begin);
  return next != all.ranges.end() && next->first < begin + size;
}

bool aligned(uint64_t value) { return value % kGranularity == 0; }

// The mappings that together fill a range exactly; empty if there are no such mappings.
std::vector<uintptr_t> whole_mappings(uintptr_t begin, uint64_t size) {
  std::vector<uintptr_t> found;
  for (uintptr_t at = begin; at < begin + size;) {
    const auto range = world().ranges.find(at);
    if (range == world().ranges.end() || range->second.kind != Kind::mapping) return {};
    found.push_back(at);
    at += range->second.size;
    if (at > begin + size) return {};
  }
  return found;
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties, int) {
  return call<"cuMemGetAllocationGranularity">([&]() -> CUresult {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!out || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    *out = kGranularity;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr,
                                        unsigned long long flags) {
  return call<"cuMemAddressReserve">([&]() -> CUresult {
    Lock lock(world().mutex);
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!out || flags || size == 0 || !aligned(size) || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t unit = alignment < kGranularity ? kGranularity : alignment;
    if (size > (uint64_t(1) << 46) - unit) return CUDA_ERROR_OUT_OF_MEMORY;
    void *whole = mmap(nullptr, size + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto begin = reinterpret_cast<uintptr_t>(whole), address = (begin + unit - 1) / unit * unit;
    if (address > begin) munmap(whole, address - begin);
    if (begin + unit > address) munmap(reinterpret_cast<void *>(address + size), begin + unit - address);
    world().reservations[address] = size;
    *out = address;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return call<"cuMemAddressFree">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = all.reservations.find(address);
    if (found == all.reservations.end() || found->second != size || mapped(address, size))
      return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void *>(found->first), size);
    all.reservations.erase(found);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *properties,
                                unsigned long long flags) {
  return call<"cuMemCreate">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!out || !properties || flags || size == 0 || !aligned(size) ||
        properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    const int number = properties->location.id;
    if (number < 0 || static_cast<size_t>(number) >= all.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
    Arena &arena = all.devices[static_cast<size_t>(number)]->arena;
    const uint64_t offset = arena.take(size, kGranularity);
    if (offset == Arena::kNone) return CUDA_ERROR_OUT_OF_MEMORY;
    // The handle and every mapping own it. The last owner frees it; owners are only dropped with the lock held.
    const std::shared_ptr<uint64_t> memory(new uint64_t(offset), [&arena, size](uint64_t *mine) {
      arena.give(*mine, size, false);
      delete mine;
    });
    *out = all.next_physical++;
    all.physicals[*out] = {number, size, memory};
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call<"cuMemRelease">([&]() -> CUresult {
    Lock lock(world().mutex);
    return world().physicals.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                             unsigned long long flags) {
  return call<"cuMemMap">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = all.physicals.find(handle);
    if (found == all.physicals.end() || flags || offset != 0 || size == 0 || !aligned(size) || !aligned(address) ||
        size > found->second.size || !reserved(address, size) || mapped(address, size))
      return CUDA_ERROR_INVALID_VALUE;
    const Physical &physical = found->second;
    Arena &arena = all.devices[static_cast<size_t>(physical.device)]->arena;
    const int access = all.windows ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (mmap(reinterpret_cast<void *>(address), size, access, MAP_SHARED | MAP_FIXED, arena.file(),
             static_cast<off_t>(*physical.memory)) == MAP_FAILED)
      return CUDA_ERROR_OPERATING_SYSTEM;
    all.ranges[address] = {Kind::mapping,
                           size,
                           physical.device,
                           arena.inner(*physical.memory),
                           *physical.memory,
                           size,
                           physical.memory,
                           {},
                           {}};
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return call<"cuMemUnmap">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = whole_mappings(address, size);
    if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (const uintptr_t each : found) all.drop(all.ranges.find(each));
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
  return call<"cuMemSetAccess">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = whole_mappings(address, size);
    if (found.empty() || (count && !access)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const int device = access[i].location.id, flags = access[i].flags;
      if (device < 0 || static_cast<size_t>(device) >= all.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
      if (flags != 0 && flags != 1 && flags != 3) return CUDA_ERROR_INVALID_VALUE;
      for (const uintptr_t each : found) {
        Range &range = all.ranges.find(each)->second;
        range.readers.erase(device);
        range.writers.erase(device);
        if (flags & 1) range.readers.insert(device);
        if (flags == 3) range.writers.insert(device);
      }
    }
    return CUDA_SUCCESS;
  });
}
