// Reservations, physical memory and mappings over memfd.
#include "drivers/cpu/memory/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/common/error_text.h"

namespace tb::cpu {

namespace {

constexpr uint64_t largest = uint64_t(1) << 56; // sums of two sizes never overflow

void *pointer_to(uintptr_t address) { return reinterpret_cast<void *>(address); }
unsigned long long number(uint64_t value) { return value; }

// Puts inaccessible, memory-less pages in place of whatever is there.
bool blank(uintptr_t address, uint64_t size) {
  return mmap(pointer_to(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

} // namespace

VirtualMemory::~VirtualMemory() {
  for (const auto &[device, file] : files_) close(file.descriptor);
}

int VirtualMemory::Mapping::protection() const noexcept {
  return (readers ? PROT_READ : PROT_NONE) | (writers ? PROT_WRITE : PROT_NONE);
}

tb_status VirtualMemory::check_range(const char *what, uintptr_t address, uint64_t size) const {
  if (size != 0 && size <= largest && size % granularity == 0 && address % granularity == 0) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT,
              "%s: %llu bytes at %p are not a multiple of the granularity, %llu bytes, "
              "above 0",
              what, number(size), pointer_to(address), number(granularity));
}

bool VirtualMemory::inside_reservation(uintptr_t address, uint64_t size) const {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return false;
  --found;
  return address + size <= found->first + found->second;
}

bool VirtualMemory::overlaps_mapping(uintptr_t address, uint64_t size) const {
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + size) return true;
  if (next == mappings_.begin()) return false;
  --next;
  return next->first + next->second.size > address;
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
  if (*first != mappings_.begin()) {
    const auto before = std::prev(*first);
    if (before->first + before->second.size > address) whole = false;
  }
  if (whole) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p are not made up of whole mappings", number(size),
              pointer_to(address));
}

tb_status VirtualMemory::reserve(uint64_t size, uint64_t alignment, void *hint, void **out) {
  if (const tb_status status = check_range("vmm_reserve", 0, size)) return status;
  if (alignment == 0) alignment = granularity;
  if ((alignment & (alignment - 1)) != 0 || alignment > largest)
    return fail(host_, TB_INVALID_ARGUMENT, "alignment %llu is not a power of two", number(alignment));
  if (alignment < granularity) alignment = granularity;
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

tb_status VirtualMemory::create(Device &device, uint64_t size, tb_physical **out) {
  if (const tb_status status = check_range("vmm_create", 0, size)) return status;
  const ByteText asked(size), limit(device.budget().limit()), used(device.budget().used());
  auto physical = std::make_unique<Physical>(Physical{&device, size, 0, 1});
  std::lock_guard lock(mutex_);
  File &file = files_[device.number()];
  if (file.descriptor < 0) {
    file.descriptor = memfd_create("tb-cpu-device", MFD_CLOEXEC);
    if (file.descriptor < 0) return fail_native(host_, TB_UNAVAILABLE, errno, "the system gives no memfd");
  }
  if (!device.budget().charge(size))
    return fail(host_, TB_OUT_OF_MEMORY,
                "%s on device %d do not fit: its limit is %s and %s of it are in use. Free memory, or raise the "
                "driver's option \"memory\" (TB_CPU_MEMORY)",
                asked.text, device.number(), limit.text, used.text);
  if (ftruncate(file.descriptor, static_cast<off_t>(file.size + size)) != 0) {
    const int code = errno;
    device.budget().refund(size);
    return fail_native(host_, TB_OUT_OF_MEMORY, code, "the system refused %s of shared memory (%s)", asked.text,
                       std::strerror(code));
  }
  physical->file_offset = file.size;
  file.size += size;
  ++physical_count_;
  *out = reinterpret_cast<tb_physical *>(physical.release());
  return TB_OK;
}

void VirtualMemory::drop(Physical *physical) noexcept {
  if (--physical->references != 0) return;
  fallocate(files_[physical->device->number()].descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(physical->file_offset), static_cast<off_t>(physical->size));
  physical->device->budget().refund(physical->size);
  delete physical;
}

tb_status VirtualMemory::destroy(tb_physical *handle) {
  std::lock_guard lock(mutex_);
  --physical_count_;
  drop(reinterpret_cast<Physical *>(handle));
  return TB_OK;
}

tb_status VirtualMemory::map(void *address, uint64_t size, tb_physical *handle, uint64_t offset) {
  auto *physical = reinterpret_cast<Physical *>(handle);
  const uintptr_t start = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  if (const tb_status status = check_range("vmm_map", start, size)) return status;
  if (offset % granularity != 0 || offset > physical->size || size > physical->size - offset)
    return fail(host_, TB_OUT_OF_RANGE,
                "%llu bytes at offset %llu do not lie in the physical memory's %llu bytes, or "
                "the offset is not a multiple of the granularity, %llu",
                number(size), number(offset), number(physical->size), number(granularity));
  if (!inside_reservation(start, size))
    return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p do not lie in one reservation", number(size), address);
  if (overlaps_mapping(start, size))
    return fail(host_, TB_ALREADY_EXISTS, "a part of the %llu bytes at %p is mapped already", number(size), address);
  const auto mapping = mappings_.emplace(start, Mapping{size, physical}).first;
  if (mmap(address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, files_[physical->device->number()].descriptor,
           static_cast<off_t>(physical->file_offset + offset)) == MAP_FAILED) {
    const int code = errno;
    mappings_.erase(mapping);
    return fail_native(host_, TB_OUT_OF_MEMORY, code, "the system refused the mapping (%s)", std::strerror(code));
  }
  ++physical->references;
  return TB_OK;
}

tb_status VirtualMemory::unmap(void *address, uint64_t size) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  Mappings::iterator first, last;
  if (const tb_status status = whole_mappings(start, size, false, &first, &last)) return status;
  while (first != last) {
    if (!blank(first->first, first->second.size)) {
      const int code = errno;
      return fail_native(host_, TB_INTERNAL, code, "the system refused to take a mapping away (%s)",
                         std::strerror(code));
    }
    drop(first->second.physical);
    first = mappings_.erase(first);
  }
  return TB_OK;
}

tb_status VirtualMemory::set_access(void *address, uint64_t size, const int32_t *devices, uint32_t device_count,
                                    uint32_t access) {
  if (access != 0 && access != 1 && access != 3)
    return fail(host_, TB_INVALID_ARGUMENT, "access %u is none of 0 (none), 1 (read), 3 (read and write)", access);
  uint64_t named = 0;
  for (uint32_t place = 0; place < device_count; ++place) named |= uint64_t(1) << devices[place];
  std::lock_guard lock(mutex_);
  Mappings::iterator first, last;
  if (const tb_status status = whole_mappings(reinterpret_cast<uintptr_t>(address), size, true, &first, &last))
    return status;
  for (; first != last; ++first) {
    Mapping changed = first->second;
    changed.readers = access & 1 ? changed.readers | named : changed.readers & ~named;
    changed.writers = access & 2 ? changed.writers | named : changed.writers & ~named;
    if (mprotect(pointer_to(first->first), changed.size, changed.protection()) != 0) {
      const int code = errno;
      return fail_native(host_, TB_INTERNAL, code, "the system refused the access (%s)", std::strerror(code));
    }
    first->second = changed;
  }
  return TB_OK;
}

bool VirtualMemory::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin()) return false;
  --found;
  if (address - found->first >= found->second.size) return false;
  out->kind = TB_POINTER_DEVICE;
  out->device = found->second.physical->device->number();
  out->base = pointer_to(found->first);
  out->size = found->second.size;
  return true;
}

VirtualMemory::Counts VirtualMemory::counts() {
  std::lock_guard lock(mutex_);
  return {reservations_.size(), physical_count_};
}

} // namespace tb::cpu
