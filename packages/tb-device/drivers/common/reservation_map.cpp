// Reserves and gives back addresses, and checks the ranges of mappings.
#include "drivers/common/reservation_map.h"

#include <algorithm>

namespace tb::drivers {

namespace {
unsigned long long number(uint64_t value) { return value; }
} // namespace

tb_status Reservations::check_range(const char *what, uintptr_t address, uint64_t size) const {
  if (size != 0 && size <= largest_ && size % granularity_ == 0 && address % granularity_ == 0) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT,
              "%s: %llu bytes at %p are not a multiple of the granularity, %llu bytes, above 0", what, number(size),
              address_pointer(address), number(granularity_));
}

bool Reservations::contains(uintptr_t address, uint64_t size) const {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return false;
  --found;
  return address + size <= found->first + found->second;
}

tb_status Reservations::reserve(std::mutex &mutex, uint64_t size, uint64_t alignment, void *hint, void **out) {
  if (const tb_status status = check_range("vmm_reserve", 0, size)) return status;
  if (alignment == 0) alignment = granularity_;
  if ((alignment & (alignment - 1)) != 0 || alignment > largest_)
    return fail(host_, TB_INVALID_ARGUMENT, "alignment %llu is not a power of two that an address can have",
                number(alignment));
  alignment = std::max(alignment, granularity_);
  const uint64_t span = size + alignment;
  void *memory = mmap(hint, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail_native(host_, TB_OUT_OF_MEMORY, errno, "the system has no free range of addresses of %s",
                       ByteText(size).text);
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t range = (start + alignment - 1) & ~(alignment - 1);
  if (range > start) munmap(memory, range - start);
  if (const uint64_t tail = start + span - (range + size)) munmap(address_pointer(range + size), tail);
  try {
    std::lock_guard lock(mutex);
    reservations_.emplace(range, size);
  } catch (...) {
    munmap(address_pointer(range), size);
    throw;
  }
  *out = address_pointer(range);
  return TB_OK;
}

tb_status Reservations::release(void *address, uint64_t size, bool has_mappings) {
  const auto found = reservations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == reservations_.end() || found->second != size)
    return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p are not a whole reservation", number(size), address);
  if (has_mappings)
    return fail(host_, TB_FAILED_PRECONDITION, "the reservation at %p has mappings: unmap them first", address);
  reservations_.erase(found); // under the lock: another reserve may get the address at once
  munmap(address, size);
  return TB_OK;
}

void Reservations::unmap_all() noexcept {
  for (const auto &[address, size] : reservations_) munmap(address_pointer(address), size);
  reservations_.clear();
}

tb_status Reservations::blank(uintptr_t address, uint64_t size) const {
  if (mmap(address_pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
      MAP_FAILED)
    return TB_OK;
  const int code = errno;
  return fail_native(host_, TB_INTERNAL, code, "the system refused to unmap a mapping (%s)", std::strerror(code));
}

tb_status Reservations::check_map(uintptr_t address, uint64_t size, uint64_t offset, uint64_t physical_size) const {
  if (const tb_status status = check_range("vmm_map", address, size)) return status;
  if (offset % granularity_ != 0 || offset > physical_size || size > physical_size - offset)
    return fail(host_, TB_OUT_OF_RANGE,
                "%llu bytes at offset %llu are not inside the physical memory's %llu bytes, or the offset is not a "
                "multiple of the granularity, %llu",
                number(size), number(offset), number(physical_size), number(granularity_));
  if (contains(address, size)) return TB_OK;
  return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p are not inside one reservation", number(size),
              address_pointer(address));
}

tb_status check_access(const tb_host *host, uint32_t access) {
  if (access == 0 || access == 1 || access == 3) return TB_OK;
  return fail(host, TB_INVALID_ARGUMENT, "access %u is none of 0 (none), 1 (read), 3 (read and write)", access);
}

} // namespace tb::drivers
