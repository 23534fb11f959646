// Reserved addresses of this process and the mappings inside them: the bookkeeping of VMM for drivers that map files of
// memory themselves.
//
// Nothing here locks: the caller holds its own lock around every call, except for reserve(), which takes it.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "drivers/common/error_text.h"
#include "tb/driver.h"

namespace tb::drivers {

inline void *address_pointer(uintptr_t address) { return reinterpret_cast<void *>(address); }

class Reservations {
public:
  // Sizes and alignments up to `largest`, so that sums of two never overflow.
  Reservations(const tb_host *host, uint64_t granularity, uint64_t largest)
      : host_(host), granularity_(granularity), largest_(largest) {}
  Reservations(const Reservations &) = delete;
  Reservations &operator=(const Reservations &) = delete;

  // Reserves inaccessible addresses. Takes `mutex` only to record them: the system's call may be slow.
  tb_status reserve(std::mutex &mutex, uint64_t size, uint64_t alignment, void *hint, void **out);
  // TB_OK when address and size are multiples of the granularity; `what` begins the text.
  tb_status check_range(const char *what, uintptr_t address, uint64_t size) const;
  // Whether the whole range is inside one reservation.
  bool contains(uintptr_t address, uint64_t size) const;
  size_t count() const { return reservations_.size(); }
  // Gives every reservation back to the system.
  void unmap_all() noexcept;

protected:
  tb_status release(void *address, uint64_t size, bool has_mappings);
  // Puts inaccessible pages without memory in place of a mapping; the addresses stay reserved.
  tb_status blank(uintptr_t address, uint64_t size) const;
  tb_status check_map(uintptr_t address, uint64_t size, uint64_t offset, uint64_t physical_size) const;

  const tb_host *const host_;
  const uint64_t granularity_, largest_;

private:
  std::map<uintptr_t, uint64_t> reservations_; // address to size
};

// What every mapping has; a driver's own adds the physical memory behind it.
struct MappedRange {
  uint64_t size;
  uint64_t readers = 0, writers = 0; // a bit for each device
  int protection() const noexcept { return (readers ? PROT_READ : PROT_NONE) | (writers ? PROT_WRITE : PROT_NONE); }
};

// Mapping: derived from MappedRange.
template <class Mapping> class ReservationMap : public Reservations {
public:
  using Reservations::Reservations;
  using Mappings = std::map<uintptr_t, Mapping>;
  using Iterator = typename Mappings::iterator;

  const Mappings &mappings() const noexcept { return mappings_; }
  // The mapping that holds an address; NULL when there is none. Its first address in `base`.
  const Mapping *find(uintptr_t address, uintptr_t *base = nullptr) const {
    auto found = mappings_.upper_bound(address);
    if (found == mappings_.begin()) return nullptr;
    --found;
    if (address - found->first >= found->second.size) return nullptr;
    if (base) *base = found->first;
    return &found->second;
  }

  tb_status release(void *address, uint64_t size) {
    return Reservations::release(address, size, overlaps(reinterpret_cast<uintptr_t>(address), size));
  }

  // Maps a part of `file` that begins at `file_offset` and records it. `offset` is the part's place in physical memory
  // of `physical_size` bytes.
  tb_status map(void *address, const Mapping &mapping, uint64_t offset, uint64_t physical_size, int file,
                uint64_t file_offset) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(address);
    const unsigned long long size = mapping.size;
    if (const tb_status status = check_map(start, mapping.size, offset, physical_size)) return status;
    if (overlaps(start, mapping.size))
      return fail(host_, TB_ALREADY_EXISTS, "a part of the %llu bytes at %p is mapped already", size, address);
    const auto recorded = mappings_.emplace(start, mapping).first;
    if (mmap(address, mapping.size, PROT_NONE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(file_offset)) !=
        MAP_FAILED)
      return TB_OK;
    const int code = errno;
    mappings_.erase(recorded);
    return fail_native(host_, TB_OUT_OF_MEMORY, code, "the system refused the mapping (%s)", std::strerror(code));
  }

  // Unmaps a range that consists of whole mappings. `dropped` gets each mapping after it is gone.
  template <class Dropped> tb_status unmap(void *address, uint64_t size, Dropped &&dropped) {
    Iterator first, last;
    if (const tb_status status = find_whole(reinterpret_cast<uintptr_t>(address), size, false, &first, &last))
      return status;
    while (first != last) {
      if (const tb_status status = blank(first->first, first->second.size)) return status;
      const Mapping mapping = first->second;
      first = mappings_.erase(first);
      dropped(mapping);
    }
    return TB_OK;
  }

  // Sets the access of the devices whose bits are in `named`. `protect(address, mapping)` makes the system follow;
  // false with errno when it refuses.
  template <class Protect>
  tb_status set_access(void *address, uint64_t size, uint64_t named, uint32_t access, Protect &&protect) {
    Iterator first, last;
    if (const tb_status status = find_whole(reinterpret_cast<uintptr_t>(address), size, true, &first, &last))
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

private:
  bool overlaps(uintptr_t address, uint64_t size) const {
    const auto next = mappings_.lower_bound(address);
    return (next != mappings_.end() && next->first < address + size) || find(address);
  }

  // The mappings of which a range consists; fails when one reaches beyond it or, with `gapless`, when one is missing.
  tb_status find_whole(uintptr_t address, uint64_t size, bool gapless, Iterator *first, Iterator *last) {
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
    uintptr_t base = address;
    if (find(address, &base) && base != address) whole = false;
    if (whole) return TB_OK;
    return fail(host_, TB_INVALID_ARGUMENT, "%llu bytes at %p do not consist of whole mappings",
                static_cast<unsigned long long>(size), address_pointer(address));
  }

  Mappings mappings_;
};

// TB_OK when `access` is one of the values of vmm_set_access.
tb_status check_access(const tb_host *host, uint32_t access);

} // namespace tb::drivers
