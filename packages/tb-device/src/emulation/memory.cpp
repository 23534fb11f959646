// Emulates address facts, memory counts and pinned memory.
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulation/emulation.h"
#include "host/errors.h"

namespace tb::device {

void AddressMap::add(int32_t kind, int32_t device, void *base, uint64_t size) {
  std::lock_guard lock(mutex_);
  ranges_[reinterpret_cast<uintptr_t>(base)] = {kind, device, size};
  if (kind == TB_POINTER_DEVICE) bytes_[device] += size;
}

bool AddressMap::remove(void *base) {
  std::lock_guard lock(mutex_);
  auto found = ranges_.find(reinterpret_cast<uintptr_t>(base));
  if (found == ranges_.end()) return false;
  if (found->second.kind == TB_POINTER_DEVICE) bytes_[found->second.device] -= found->second.size;
  ranges_.erase(found);
  return true;
}

bool AddressMap::find(const void *pointer, tb_pointer_info &out) const {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto &[base, range] = *--after;
  // An empty block is found at its own address.
  if (address - base >= (range.size ? range.size : 1)) return false;
  out.kind = range.kind;
  out.device = range.device;
  out.base = reinterpret_cast<void *>(base);
  out.size = range.size;
  return true;
}

uint64_t AddressMap::bytes(int32_t device) const {
  std::lock_guard lock(mutex_);
  auto found = bytes_.find(device);
  return found == bytes_.end() ? 0 : found->second;
}

uint64_t AddressMap::count() const {
  std::lock_guard lock(mutex_);
  return ranges_.size();
}

namespace {

// The map must not forget an address that the driver already gives to another thread, nor keep one it has freed:
// removed before the free, added after the allocation.
tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  Driver &driver = driver_of(self);
  tb_status status = driver.offered.mem_alloc(self, device, size, flags, out);
  if (status == TB_OK) driver.emulation->addresses.add(TB_POINTER_DEVICE, device, *out, size);
  return status;
}

tb_status forget_then(Driver &driver, void *ptr, auto &&release) {
  tb_pointer_info info{};
  bool known = ptr && driver.emulation->addresses.find(ptr, info) && info.base == ptr;
  if (known) driver.emulation->addresses.remove(ptr);
  tb_status status = release();
  if (tb_is_refusal(status) && known) driver.emulation->addresses.add(info.kind, info.device, ptr, info.size);
  return status;
}

tb_status mem_free(tb_driver *self, int32_t device, void *ptr) {
  Driver &driver = driver_of(self);
  return forget_then(driver, ptr, [&] { return driver.offered.mem_free(self, device, ptr); });
}

tb_status mem_alloc_pinned(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  Driver &driver = driver_of(self);
  tb_status status = driver.offered.mem_alloc_host(self, device, size, flags, out);
  if (status == TB_OK) driver.emulation->addresses.add(TB_POINTER_HOST_PINNED, device, *out, size);
  return status;
}

tb_status mem_free_pinned(tb_driver *self, void *ptr) {
  Driver &driver = driver_of(self);
  return forget_then(driver, ptr, [&] { return driver.offered.mem_free_host(self, ptr); });
}

tb_status mem_register_host(tb_driver *self, int32_t device, void *ptr, uint64_t size, uint64_t flags) {
  Driver &driver = driver_of(self);
  tb_status status = driver.offered.mem_register_host(self, device, ptr, size, flags);
  if (status == TB_OK) driver.emulation->addresses.add(TB_POINTER_HOST_PINNED, device, ptr, size);
  return status;
}

tb_status mem_unregister_host(tb_driver *self, void *ptr) {
  Driver &driver = driver_of(self);
  return forget_then(driver, ptr, [&] { return driver.offered.mem_unregister_host(self, ptr); });
}

tb_status mem_get_info(tb_driver *self, const void *ptr, tb_pointer_info *out) {
  Driver &driver = driver_of(self);
  tb_pointer_info info{};
  const char *name = driver.name.c_str();
  if (!driver.emulation->addresses.find(ptr, info)) {
    // The map does not have the driver's own addresses, so "not found" could be wrong.
    if (driver.offers(TB_GROUP_SOA | TB_GROUP_VMM | TB_GROUP_IPC))
      return fail(TB_UNSUPPORTED, -1, name, "mem_get_info",
                  "%s has no function mem_get_info (group PTR not offered), and the host's own map knows only what "
                  "mem_alloc and pinned allocations gave",
                  name);
    return fail(TB_NOT_FOUND, -1, name, "mem_get_info", "%p is not memory of %s", ptr, name);
  }
  info.struct_size = out->struct_size;
  std::memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
  return TB_OK;
}

tb_status device_memory_info(tb_driver *self, int32_t device, uint64_t *out_free, uint64_t *out_total) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::device_memory_info)) return status;
  uint64_t total = driver.devices[static_cast<size_t>(device)].total_memory;
  uint64_t used = driver.emulation->addresses.bytes(device);
  *out_free = used < total ? total - used : 0;
  *out_total = total;
  return TB_OK;
}

constexpr size_t host_alignment = 64; // a cache line, and what tensors expect

tb_status mem_alloc_pageable(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::mem_alloc_host)) return status;
  const char *name = driver.name.c_str();
  if (flags)
    return fail(TB_INVALID_ARGUMENT, device, name, "mem_alloc_host", "unknown flags %#llx",
                static_cast<unsigned long long>(flags));
  void *memory = nullptr;
  if (size <= SIZE_MAX / 2) memory = ::operator new(size ? size : 1, std::align_val_t{host_alignment}, std::nothrow);
  if (!memory)
    return fail(TB_OUT_OF_MEMORY, device, name, "mem_alloc_host", "no %llu bytes of host memory",
                static_cast<unsigned long long>(size));
  *out = memory;
  return TB_OK;
}

tb_status mem_free_pageable(tb_driver *, void *ptr) {
  ::operator delete(ptr, std::align_val_t{host_alignment});
  return TB_OK;
}

} // namespace

void emulate_memory(Driver &driver) {
  tb_driver_api &table = driver.table;
  bool map_needed = !table.mem_get_info || !table.device_memory_info;
  if (!table.device_memory_info) table.device_memory_info = device_memory_info;
  if (map_needed) {
    table.mem_alloc = mem_alloc;
    table.mem_free = mem_free;
  }
  if (!table.mem_get_info) {
    table.mem_get_info = mem_get_info;
    if (table.mem_alloc_host) table.mem_alloc_host = mem_alloc_pinned;
    if (table.mem_free_host) table.mem_free_host = mem_free_pinned;
    if (table.mem_register_host) table.mem_register_host = mem_register_host;
    if (table.mem_unregister_host) table.mem_unregister_host = mem_unregister_host;
  }
  if (!table.mem_alloc_host) {
    table.mem_alloc_host = mem_alloc_pageable;
    table.mem_free_host = mem_free_pageable;
  }
}

} // namespace tb::device
