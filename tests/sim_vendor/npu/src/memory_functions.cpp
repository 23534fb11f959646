// memory_functions.cpp -- allocation and virtual memory.
#include "entry.h"
#include "functions.h"
#include "machine.h"

namespace sim {
namespace {

constexpr uint64_t kHugePage = 2 << 20;

Memory &memory() { return Machine::get().memory(); }
int32_t current_device() { return Machine::get().current()->device; }

Error check(const PhysicalProperties *properties) {
  const bool known = properties && properties->handle_type == 0 && properties->allocation_type == 0 &&
                     properties->attribute == 4 && properties->location.type == 1;
  if (!known) return fail(kParameter, "EE1050: memory of no known kind");
  if (!Machine::get().valid_device(static_cast<int32_t>(properties->location.id)))
    return fail(kDeviceId, "EE1007: no device %u", properties->location.id);
  return kOk;
}

} // namespace

Error aclrtMalloc(void **out, size_t size, int32_t policy) {
  if (policy < 0 || policy > 7) return fail(kParameter, "EE1051: unknown policy %d", policy);
  return memory().allocate(current_device(), size, out);
}

Error aclrtMallocAlign32(void **out, size_t size, int32_t policy) { return aclrtMalloc(out, size, policy); }
Error aclrtFree(void *pointer) { return memory().release(pointer); }

Error aclrtGetMemInfo(int32_t attribute, size_t *free, size_t *total) {
  if (attribute < 0 || attribute > 17) return fail(kParameter, "EE1052: unknown kind of memory %d", attribute);
  memory().usage(current_device(), free, total);
  return kOk;
}

Error aclrtMallocHost(void **out, size_t size) { return memory().allocate_host(size, out); }
Error aclrtFreeHost(void *pointer) { return memory().release_host(pointer); }

Error aclrtHostRegister(void *pointer, uint64_t size, int32_t type, void **device_pointer) {
  if (type != 0 || !device_pointer) return fail(kParameter, "EE1053: unknown kind of registration %d", type);
  const Error error = memory().register_host(pointer, size);
  if (!error) *device_pointer = pointer;
  return error;
}

Error aclrtHostUnregister(void *pointer) { return memory().unregister_host(pointer); }

Error aclrtPointerGetAttributes(const void *pointer, PointerAttributes *out) {
  int32_t device = 0;
  const Place place = memory().place(pointer, &device);
  *out = {};
  out->location.type = place == Place::device ? 1 : place == Place::pinned ? 0 : 2;
  out->location.id = static_cast<uint32_t>(device);
  out->page_size = 4096;
  return kOk;
}

Error aclrtReserveMemAddress(void **out, size_t size, size_t alignment, void *hint, uint64_t flags) {
  if (alignment || hint || flags > 1) return fail(kParameter, "EE1054: alignment and hint are reserved: 0");
  return memory().reserve(size, out);
}

Error aclrtReleaseMemAddress(void *address) { return memory().unreserve(address); }

Error aclrtMallocPhysical(void **out, size_t size, const PhysicalProperties *properties, uint64_t flags) {
  if (const Error error = check(properties)) return error;
  if (flags) return fail(kParameter, "EE1055: unknown flags");
  return memory().create_physical(static_cast<int32_t>(properties->location.id), size, out);
}

Error aclrtFreePhysical(void *handle) { return memory().destroy_physical(handle); }

Error aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags) {
  if (offset || flags) return fail(kParameter, "EE1056: offset and flags are reserved: 0");
  return memory().map(address, size, handle);
}

Error aclrtUnmapMem(void *address) { return memory().unmap(address); }

Error aclrtMemGetAllocationGranularity(const PhysicalProperties *properties, int32_t option, size_t *out) {
  if (const Error error = check(properties)) return error;
  if (option != 0 && option != 1) return fail(kParameter, "EE1057: unknown option %d", option);
  *out = kHugePage;
  return kOk;
}

} // namespace sim
