// The table's functions about addresses apart from memory (VMM).
//
// What is reserved and mapped is kept here as well: libcuda gives CUDA_ERROR_INVALID_VALUE for every wrong use.
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

using Ranges = std::map<uintptr_t, uint64_t>;

uintptr_t address_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

CUmemAllocationProp properties_of(const Device &device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.native};
  return properties;
}

tb_status granularity(Driver &driver, Device &device, int option, uint64_t *out) {
  const CUmemAllocationProp properties = properties_of(device);
  size_t found = 0;
  const tb_status status = driver.report(device, driver.api.cuMemGetAllocationGranularity(&found, &properties, option),
                                         "cuMemGetAllocationGranularity");
  if (status == TB_OK) *out = found;
  return status;
}

bool overlaps(const Ranges &ranges, uintptr_t begin, uint64_t size) {
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.end() && next->first - begin < size) return true;
  return next != ranges.begin() && begin - std::prev(next)->first < std::prev(next)->second;
}

// Inside one of them.
bool inside(const Ranges &ranges, uintptr_t begin, uint64_t size) {
  auto found = ranges.upper_bound(begin);
  if (found == ranges.begin()) return false;
  --found;
  const uint64_t skip = begin - found->first;
  return skip < found->second && size <= found->second - skip;
}

// Begins and ends with ranges, and they leave no gap.
bool whole(const Ranges &ranges, uintptr_t begin, uint64_t size) {
  auto found = ranges.find(begin);
  uintptr_t at = begin;
  for (; found != ranges.end() && found->first == at && at - begin < size; ++found) at += found->second;
  return size > 0 && at - begin == size;
}

} // namespace

namespace slots {

tb_status vmm_granularity(tb_driver *self, int32_t number, uint64_t *out_minimum, uint64_t *out_recommended) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out_minimum, "out_minimum"))) return status;
    if ((status = driver.require(out_recommended, "out_recommended"))) return status;
    uint64_t minimum = 0, recommended = 0;
    if ((status = granularity(driver, *device, CU_MEM_ALLOC_GRANULARITY_MINIMUM, &minimum))) return status;
    if ((status = granularity(driver, *device, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, &recommended))) return status;
    *out_minimum = minimum;
    *out_recommended = recommended;
    return TB_OK;
  });
}

tb_status vmm_reserve(tb_driver *self, uint64_t size, uint64_t alignment, void *hint, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    CUdeviceptr address = 0;
    const CUresult result = driver.api.cuMemAddressReserve(&address, size, alignment, address_of(hint), 0);
    if (const tb_status status = driver.report(result, "cuMemAddressReserve")) return status;
    std::lock_guard lock(driver.mutex);
    driver.reservations[static_cast<uintptr_t>(address)] = size;
    *out = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
    return TB_OK;
  });
}

tb_status vmm_release(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    std::lock_guard lock(driver.mutex);
    const auto found = driver.reservations.find(address_of(address));
    if (found == driver.reservations.end() || found->second != size)
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p is not a whole range of vmm_reserve of that size", address);
    if (overlaps(driver.mappings, found->first, size))
      return fail(driver.host, TB_FAILED_PRECONDITION, "memory is mapped in the range at %p: unmap it first", address);
    const tb_status status = driver.report(driver.api.cuMemAddressFree(found->first, size), "cuMemAddressFree");
    if (!tb_is_refusal(status)) driver.reservations.erase(found);
    return status;
  });
}

tb_status vmm_create(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, tb_physical **out) {
  // libcuda needs no context for it, but without one device_memory_info would fail.
  return with_device(self, number, {{{out, "out"}}, flags}, [&](Driver &driver, Device &device) -> tb_status {
    const CUmemAllocationProp properties = properties_of(device);
    CUmemGenericAllocationHandle native = 0;
    const CUresult result = driver.api.cuMemCreate(&native, size, &properties, 0);
    if (const tb_status status = driver.report(device, result, "cuMemCreate")) return status;
    *out = (new Physical{device, native, device.generation})->handle();
    driver.live.physicals.fetch_add(1);
    return TB_OK;
  });
}

tb_status vmm_destroy(tb_driver *self, tb_physical *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "physical")) return status;
    auto *physical = Physical::of(handle);
    const tb_status status = driver.report(driver.api.cuMemRelease(physical->native), "cuMemRelease");
    if (tb_is_refusal(status)) return status;
    driver.live.physicals.fetch_sub(1);
    delete physical;
    return status;
  });
}

tb_status vmm_map(tb_driver *self, void *address, uint64_t size, tb_physical *handle, uint64_t offset) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "physical")) return status;
    std::lock_guard lock(driver.mutex);
    if (!inside(driver.reservations, address_of(address), size))
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p and the bytes after it are not inside a range of vmm_reserve",
                  address);
    if (overlaps(driver.mappings, address_of(address), size))
      return fail(driver.host, TB_ALREADY_EXISTS, "memory is mapped at %p, or behind it, already", address);
    if (offset != 0)
      return fail(driver.host, TB_UNSUPPORTED,
                  "CUDA maps memory from its start only, not from byte %llu: create the parts apart",
                  static_cast<unsigned long long>(offset));
    const CUresult result = driver.api.cuMemMap(address_of(address), size, 0, Physical::of(handle)->native, 0);
    const tb_status status = driver.report(result, "cuMemMap");
    if (status == TB_OK) driver.mappings[address_of(address)] = size;
    return status;
  });
}

tb_status vmm_unmap(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    std::lock_guard lock(driver.mutex);
    if (!whole(driver.mappings, address_of(address), size))
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p and its size are not whole mappings of vmm_map", address);
    const tb_status status = driver.report(driver.api.cuMemUnmap(address_of(address), size), "cuMemUnmap");
    if (tb_is_refusal(status)) return status;
    const auto first = driver.mappings.find(address_of(address));
    driver.mappings.erase(first, driver.mappings.lower_bound(address_of(address) + size));
    return status;
  });
}

tb_status vmm_set_access(tb_driver *self, void *address, uint64_t size, const int32_t *numbers, uint32_t device_count,
                         uint32_t access) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (device_count && (status = driver.require(numbers, "devices"))) return status;
    if (access != 0 && access != 1 && access != 3)
      return fail(driver.host, TB_INVALID_ARGUMENT, "access is %u; 0 is none, 1 reading, 3 reading and writing",
                  access);
    std::vector<CUmemAccessDesc> wanted;
    for (uint32_t i = 0; i < device_count; ++i) {
      const Device *device = driver.usable(numbers[i], &status);
      if (!device) return status;
      wanted.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device->native}, static_cast<int>(access)});
    }
    std::lock_guard lock(driver.mutex);
    if (!whole(driver.mappings, address_of(address), size))
      return fail(driver.host, TB_INVALID_ARGUMENT, "the range at %p is not mapped throughout, by whole mappings",
                  address);
    if (wanted.empty()) return TB_OK;
    return driver.report(driver.api.cuMemSetAccess(address_of(address), size, wanted.data(), wanted.size()),
                         "cuMemSetAccess");
  });
}

} // namespace slots
} // namespace tb::drivers::cuda
