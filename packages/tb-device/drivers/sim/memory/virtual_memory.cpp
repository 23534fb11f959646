// Maps parts of the devices' files at reserved addresses.
#include "drivers/sim/memory/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "drivers/common/error_text.h"

namespace tb::drivers::sim {

VirtualMemory::VirtualMemory(const tb_host *host, std::vector<std::unique_ptr<Blocks>> &devices, bool isolated)
    : host_(host), devices_(devices), isolated_(isolated), map_(host, granularity, largest) {
  for (const auto &device : devices) {
    const uint64_t begin = (device->arena().blocks_end() + granularity - 1) / granularity * granularity;
    extents_.emplace_back(begin, device->arena().end());
  }
}

VirtualMemory::~VirtualMemory() { map_.unmap_all(); }

bool VirtualMemory::in_reservation(uintptr_t address) {
  std::lock_guard lock(mutex_);
  return map_.contains(address, 1);
}

bool VirtualMemory::protect(uintptr_t address, const Mapping &mapping) const {
  const int protection = isolated_ && !open_ ? PROT_NONE : mapping.protection();
  return mprotect(address_pointer(address), mapping.size, protection) == 0;
}

tb_status VirtualMemory::reserve(uint64_t size, uint64_t alignment, void *hint, void **out) {
  return map_.reserve(mutex_, size, alignment, hint, out);
}

tb_status VirtualMemory::release(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  return map_.release(address, size);
}

tb_status VirtualMemory::create(int32_t number_of_device, uint64_t size, tb_physical **out) {
  if (const tb_status status = map_.check_range("vmm_create", 0, size)) return status;
  Blocks &device = *devices_[static_cast<size_t>(number_of_device)];
  auto physical = std::make_unique<Physical>(Physical{number_of_device, size, 0, 1});
  std::lock_guard lock(mutex_);
  Extents &extents = extents_[static_cast<size_t>(number_of_device)];
  const bool charged = device.charge(size);
  const auto place = charged ? extents.take(size) : std::nullopt;
  if (!place) {
    if (charged) device.refund(size);
    return fail(host_, TB_OUT_OF_MEMORY,
                "%s of physical memory on device %d do not fit: its capacity is %s and %s of it are in use. Free "
                "memory, or raise the driver's option \"capacity\" (TB_SIM_CAPACITY)",
                ByteText(size).text, number_of_device, ByteText(device.capacity()).text, ByteText(device.used()).text);
  }
  physical->offset = *place;
  std::memset(device.inner(*place), poison_new, size);
  auto *handle = reinterpret_cast<tb_physical *>(physical.get());
  physicals_.emplace(handle, std::move(physical));
  ++handles_;
  *out = handle;
  return TB_OK;
}

VirtualMemory::Physical *VirtualMemory::physical_of(tb_physical *handle) {
  const auto found = physicals_.find(handle);
  if (found != physicals_.end() && !found->second->destroyed) return found->second.get();
  fail(host_, TB_INVALID_ARGUMENT, "%p is no physical memory of this driver, or was destroyed already",
       static_cast<void *>(handle));
  return nullptr;
}

void VirtualMemory::drop(Physical *physical) noexcept {
  if (--physical->references != 0) return;
  Blocks &device = *devices_[static_cast<size_t>(physical->device)];
  device.arena().punch(physical->offset, physical->size);
  if (!physical->gone) device.refund(physical->size);
  extents_[static_cast<size_t>(physical->device)].give(physical->offset, physical->size);
  physicals_.erase(reinterpret_cast<tb_physical *>(physical));
}

tb_status VirtualMemory::destroy(tb_physical *handle) {
  std::lock_guard lock(mutex_);
  Physical *physical = physical_of(handle);
  if (!physical) return TB_INVALID_ARGUMENT;
  --handles_;
  physical->destroyed = true;
  drop(physical);
  return TB_OK;
}

tb_status VirtualMemory::map(void *address, uint64_t size, tb_physical *handle, uint64_t offset) {
  std::lock_guard lock(mutex_);
  Physical *physical = physical_of(handle);
  if (!physical) return TB_INVALID_ARGUMENT;
  if (physical->gone)
    return fail(host_, TB_DEVICE_LOST, "the physical memory was lost with device %d: destroy it", physical->device);
  const Mapping mapping = {{size}, physical, physical->offset + offset};
  const int file = devices_[static_cast<size_t>(physical->device)]->arena().file();
  const tb_status status = map_.map(address, mapping, offset, physical->size, file, mapping.offset);
  if (status == TB_OK) ++physical->references;
  return status;
}

tb_status VirtualMemory::unmap(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  return map_.unmap(address, size, [&](const Mapping &mapping) { drop(mapping.physical); });
}

tb_status VirtualMemory::set_access(void *address, uint64_t size, uint32_t named, uint32_t access) {
  if (const tb_status status = check_access(host_, access)) return status;
  std::lock_guard lock(mutex_);
  return map_.set_access(address, size, named, access,
                         [&](uintptr_t start, const Mapping &mapping) { return protect(start, mapping); });
}

bool VirtualMemory::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  uintptr_t base = 0;
  const Mapping *mapping = map_.find(reinterpret_cast<uintptr_t>(pointer), &base);
  if (!mapping) return false;
  out->kind = TB_POINTER_DEVICE;
  out->device = mapping->physical->device;
  out->base = address_pointer(base);
  out->size = mapping->size;
  return true;
}

int32_t VirtualMemory::try_device_at(uintptr_t address) {
  if (!mutex_.try_lock()) return -1;
  const Mapping *mapping = map_.find(address);
  const int32_t device = mapping ? mapping->physical->device : -1;
  mutex_.unlock();
  return device;
}

std::string VirtualMemory::resolve(uintptr_t address, uint64_t size, bool write, int32_t device,
                                   std::vector<Piece> *out) {
  std::lock_guard lock(mutex_);
  char text[192];
  while (size) {
    uintptr_t base = 0;
    const Mapping *found = map_.find(address, &base);
    if (!found) {
      std::snprintf(text, sizeof text, "nothing is mapped at %p", address_pointer(address));
      return text;
    }
    const Mapping &mapping = *found;
    const uint64_t allowed = write ? mapping.writers : mapping.readers;
    if (!(allowed >> device & 1) || mapping.physical->gone) {
      std::snprintf(text, sizeof text, "device %d has no %s access to the mapping at %p (vmm_set_access)", device,
                    write ? "write" : "read", address_pointer(base));
      return text;
    }
    const uint64_t into = address - base, part = std::min(size, mapping.size - into);
    out->push_back({devices_[static_cast<size_t>(mapping.physical->device)]->inner(mapping.offset + into), part});
    address += part;
    size -= part;
  }
  return {};
}

VirtualMemory::Counts VirtualMemory::counts() {
  std::lock_guard lock(mutex_);
  return {map_.count(), handles_};
}

void VirtualMemory::lose(int32_t device) {
  std::lock_guard lock(mutex_);
  for (auto &[handle, physical] : physicals_) {
    if (physical->device != device || physical->gone) continue;
    physical->gone = true;
    devices_[static_cast<size_t>(device)]->refund(physical->size);
  }
}

void VirtualMemory::open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  for (const auto &[address, mapping] : map_.mappings()) protect(address, mapping);
}

void VirtualMemory::shut() {
  std::lock_guard lock(mutex_);
  open_ = false;
  for (const auto &[address, mapping] : map_.mappings()) protect(address, mapping);
}

} // namespace tb::drivers::sim
