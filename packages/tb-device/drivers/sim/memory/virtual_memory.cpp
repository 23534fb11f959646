// Reserving addresses, and mapping parts of the devices' files there.
#include "drivers/sim/memory/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "drivers/common/error_text.h"

namespace tb::sim {

using cpu::ByteText;
using cpu::fail;
using cpu::fail_native;

namespace {

constexpr uint64_t largest = uint64_t(1) << 46; // sums of sizes never overflow, and no machine has more addresses

void *pointer_to(uintptr_t address) { return reinterpret_cast<void *>(address); }
unsigned long long number(uint64_t value) { return value; }

} // namespace

VirtualMemory::VirtualMemory(const tb_host *host, std::vector<std::unique_ptr<Blocks>> &devices, bool isolated)
    : host_(host), devices_(devices), isolated_(isolated) {
  for (const auto &device : devices) {
    const uint64_t begin = (device->arena().blocks_end() + granularity - 1) / granularity * granularity;
    extents_.emplace_back(begin, device->arena().end());
  }
}

VirtualMemory::~VirtualMemory() {
  for (const auto &[address, size] : reservations_) munmap(pointer_to(address), size);
}

tb_status VirtualMemory::check_range(const char *what, uintptr_t address, uint64_t size) const {
  if (size != 0 && size <= largest && size % granularity == 0 && address % granularity == 0) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT,
              "%s: %llu bytes at %p are not a multiple of the granularity, %llu bytes, above 0", what, number(size),
              pointer_to(address), number(granularity));
}

bool VirtualMemory::inside_reservation(uintptr_t address, uint64_t size) const {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return false;
  --found;
  return address + size <= found->first + found->second;
}

bool VirtualMemory::in_reservation(uintptr_t address) {
  std::lock_guard lock(mutex_);
  return inside_reservation(address, 1);
}

bool VirtualMemory::overlaps_mapping(uintptr_t address, uint64_t size) const {
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + size) return true;
  if (next == mappings_.begin()) return false;
  --next;
  return next->first + next->second.size > address;
}

VirtualMemory::Mappings::iterator VirtualMemory::holding(uintptr_t address) {
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin()) return mappings_.end();
  --found;
  return address - found->first < found->second.size ? found : mappings_.end();
}

tb_status VirtualMemory::whole_mappings(uintptr_t address, uint64_t size, bool gapless, Mappings::iterator *first,
                                        Mappings::iterator *last) {
  if (const tb_status status = check_range("the range", address, size)) return status;
  *first = mappings_.lower_bound(address);
  *last = mappings_.lower_bound(address + size);
  bool whole = *first != *last;
  uintptr_t reached = address;
  for (auto mapping = *first; mapping != *last; ++mapping) {
    if (gapless && mapping->first != reached) whole = false;
    reached = mapping->first + mapping->second.size;
  }
  if (reached > address + size || (gapless && reached != address + size)) whole = false;
  const auto across = holding(address);
  if (across != mappings_.end() && across->first != address) whole = false;
  if (whole) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p are not made up of whole mappings", number(size),
              pointer_to(address));
}

bool VirtualMemory::protect(uintptr_t address, const Mapping &mapping) const {
  int protection = PROT_NONE;
  if (!isolated_ || open_) protection = (mapping.readers ? PROT_READ : 0) | (mapping.writers ? PROT_WRITE : 0);
  return mprotect(pointer_to(address), mapping.size, protection) == 0;
}

tb_status VirtualMemory::reserve(uint64_t size, uint64_t alignment, void *hint, void **out) {
  if (const tb_status status = check_range("vmm_reserve", 0, size)) return status;
  if (alignment == 0) alignment = granularity;
  if ((alignment & (alignment - 1)) != 0 || alignment > largest)
    return fail(host_, TB_INVALID_ARGUMENT, "alignment %llu is not a power of two that an address can have",
                number(alignment));
  alignment = std::max(alignment, granularity);
  const uint64_t span = size + alignment;
  void *memory = mmap(hint, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail_native(host_, TB_OUT_OF_MEMORY, errno, "the system has no free range of addresses of %s",
                       ByteText(size).text);
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t range = (start + alignment - 1) & ~(alignment - 1);
  if (range > start) munmap(memory, range - start);
  if (const uint64_t tail = start + span - (range + size)) munmap(pointer_to(range + size), tail);
  try {
    std::lock_guard lock(mutex_);
    reservations_.emplace(range, size);
  } catch (...) {
    munmap(pointer_to(range), size);
    throw;
  }
  *out = pointer_to(range);
  return TB_OK;
}

tb_status VirtualMemory::release(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  const uintptr_t start = reinterpret_cast<uintptr_t>(address);
  const auto found = reservations_.find(start);
  if (found == reservations_.end() || found->second != size)
    return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p are not a whole reservation", number(size), address);
  if (overlaps_mapping(start, size))
    return fail(host_, TB_FAILED_PRECONDITION, "the reservation at %p has mappings: unmap them first", address);
  reservations_.erase(found); // under the lock: another reserve may get the address at once
  munmap(address, size);
  return TB_OK;
}

tb_status VirtualMemory::create(int32_t number_of_device, uint64_t size, tb_physical **out) {
  if (const tb_status status = check_range("vmm_create", 0, size)) return status;
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
  const uintptr_t start = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  Physical *known = physical_of(handle);
  if (!known) return TB_INVALID_ARGUMENT;
  Physical &physical = *known;
  if (physical.gone)
    return fail(host_, TB_DEVICE_LOST, "the physical memory was lost with device %d: destroy it", physical.device);
  if (const tb_status status = check_range("vmm_map", start, size)) return status;
  if (offset % granularity != 0 || offset > physical.size || size > physical.size - offset)
    return fail(host_, TB_OUT_OF_RANGE,
                "%llu bytes at offset %llu do not lie in the physical memory's %llu bytes, or the offset is not a "
                "multiple of the granularity, %llu",
                number(size), number(offset), number(physical.size), number(granularity));
  if (!inside_reservation(start, size))
    return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p do not lie in one reservation", number(size), address);
  if (overlaps_mapping(start, size))
    return fail(host_, TB_ALREADY_EXISTS, "a part of the %llu bytes at %p is mapped already", number(size), address);
  const auto mapping = mappings_.emplace(start, Mapping{size, &physical, physical.offset + offset}).first;
  if (mmap(address, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
           devices_[static_cast<size_t>(physical.device)]->arena().file(),
           static_cast<off_t>(physical.offset + offset)) == MAP_FAILED) {
    const int code = errno;
    mappings_.erase(mapping);
    return fail_native(host_, TB_OUT_OF_MEMORY, code, "the system refused the mapping (%s)", std::strerror(code));
  }
  ++physical.references;
  return TB_OK;
}

tb_status VirtualMemory::unmap(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  Mappings::iterator first, last;
  if (const tb_status status = whole_mappings(reinterpret_cast<uintptr_t>(address), size, false, &first, &last))
    return status;
  while (first != last) {
    // Inaccessible, memory-less pages in its place: the addresses stay reserved.
    if (mmap(pointer_to(first->first), first->second.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
      const int code = errno;
      return fail_native(host_, TB_INTERNAL, code, "the system refused to take a mapping away (%s)",
                         std::strerror(code));
    }
    Physical *physical = first->second.physical;
    first = mappings_.erase(first);
    drop(physical);
  }
  return TB_OK;
}

tb_status VirtualMemory::set_access(void *address, uint64_t size, uint32_t named, uint32_t access) {
  if (access != 0 && access != 1 && access != 3)
    return fail(host_, TB_INVALID_ARGUMENT, "access %u is none of 0 (none), 1 (read), 3 (read and write)", access);
  std::lock_guard lock(mutex_);
  Mappings::iterator first, last;
  if (const tb_status status = whole_mappings(reinterpret_cast<uintptr_t>(address), size, true, &first, &last))
    return status;
  for (; first != last; ++first) {
    Mapping changed = first->second;
    changed.readers = access & 1 ? changed.readers | named : changed.readers & ~named;
    changed.writers = access & 2 ? changed.writers | named : changed.writers & ~named;
    if (!protect(first->first, changed)) {
      const int code = errno;
      return fail_native(host_, TB_INTERNAL, code, "the system refused the access (%s)", std::strerror(code));
    }
    first->second = changed;
  }
  return TB_OK;
}

bool VirtualMemory::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  const auto found = holding(reinterpret_cast<uintptr_t>(pointer));
  if (found == mappings_.end()) return false;
  out->kind = TB_POINTER_DEVICE;
  out->device = found->second.physical->device;
  out->base = pointer_to(found->first);
  out->size = found->second.size;
  return true;
}

int32_t VirtualMemory::try_device_at(uintptr_t address) {
  if (!mutex_.try_lock()) return -1;
  const auto found = holding(address);
  const int32_t device = found == mappings_.end() ? -1 : found->second.physical->device;
  mutex_.unlock();
  return device;
}

std::string VirtualMemory::resolve(uintptr_t address, uint64_t size, bool write, int32_t device,
                                   std::vector<Piece> *out) {
  std::lock_guard lock(mutex_);
  char text[192];
  while (size) {
    const auto found = holding(address);
    if (found == mappings_.end()) {
      std::snprintf(text, sizeof text, "nothing is mapped at %p", pointer_to(address));
      return text;
    }
    const Mapping &mapping = found->second;
    const uint32_t allowed = write ? mapping.writers : mapping.readers;
    if (!(allowed >> device & 1) || mapping.physical->gone) {
      std::snprintf(text, sizeof text, "device %d has no %s access to the mapping at %p (vmm_set_access)", device,
                    write ? "write" : "read", pointer_to(found->first));
      return text;
    }
    const uint64_t into = address - found->first, part = std::min(size, mapping.size - into);
    out->push_back({devices_[static_cast<size_t>(mapping.physical->device)]->inner(mapping.offset + into), part});
    address += part;
    size -= part;
  }
  return {};
}

VirtualMemory::Counts VirtualMemory::counts() {
  std::lock_guard lock(mutex_);
  return {reservations_.size(), handles_};
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
  for (const auto &[address, mapping] : mappings_) protect(address, mapping);
}

void VirtualMemory::shut() {
  std::lock_guard lock(mutex_);
  open_ = false;
  for (const auto &[address, mapping] : mappings_) protect(address, mapping);
}

} // namespace tb::sim
