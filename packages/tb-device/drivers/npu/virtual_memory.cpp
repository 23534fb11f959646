// Addresses apart from memory.
#include "drivers/npu/virtual_memory.h"

#include <algorithm>

namespace tb::drivers::npu {
namespace {

uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void *pointer(uintptr_t address) { return reinterpret_cast<void *>(address); }
unsigned long long number(uint64_t value) { return value; }

acl::PhysicalProperties properties(int32_t device) {
  acl::PhysicalProperties properties = {};
  properties.attribute = acl::hbm_huge;
  properties.location = {static_cast<uint32_t>(device), acl::location_device};
  return properties;
}

} // namespace

Physical::Physical(Runtime &runtime, int32_t device, uint64_t granule, uint64_t size, const tb_host *host)
    : device(device), size(size), runtime_(runtime), host_(host) {
  const Bound bound(runtime, device, host);
  const acl::PhysicalProperties wanted = properties(device);
  pieces.reserve(size / granule);
  try {
    for (uint64_t at = 0; at < size; at += granule) {
      acl::Physical piece = nullptr;
      runtime.call(runtime.library.aclrtMallocPhysical, &piece, size_t(granule), &wanted, uint64_t(0));
      pieces.push_back(piece);
    }
  } catch (...) {
    free();
    throw;
  }
}

Physical::~Physical() { free(); }

void Physical::free() noexcept {
  for (acl::Physical piece : pieces)
    runtime_.give_back_and_log(device, host_, runtime_.library.aclrtFreePhysical, piece);
  pieces.clear();
}

uint64_t VirtualMemory::granule(int32_t device, int32_t option) {
  const Bound bound(runtime_, device, host_);
  acl::PhysicalProperties wanted = properties(device);
  size_t granule = 0;
  runtime_.call(runtime_.library.aclrtMemGetAllocationGranularity, &wanted, option, &granule);
  return granule;
}

void *VirtualMemory::reserve(uint64_t size, uint64_t alignment) {
  const uint64_t unit = granule(0, acl::minimum_option);
  if (size == 0 || size % unit)
    refuse(TB_INVALID_ARGUMENT, "a range of %llu bytes is not made of whole granules of %llu", number(size),
           number(unit));
  if (alignment & (alignment - 1))
    refuse(TB_INVALID_ARGUMENT, "the alignment %llu is no power of two", number(alignment));
  const uint64_t more = alignment > unit ? alignment : 0; // the library aligns to a granule
  if (size > UINT64_MAX / 2 - more) refuse(TB_OUT_OF_MEMORY, "no range of %llu bytes", number(size));
  const Bound bound(runtime_, 0, host_);
  void *native = nullptr;
  runtime_.call(runtime_.library.aclrtReserveMemAddress, &native, size_t(size + more), size_t(0),
                static_cast<void *>(nullptr), uint64_t(0));
  const uintptr_t base = more ? (address(native) + alignment - 1) / alignment * alignment : address(native);
  std::lock_guard lock(mutex_);
  reservations_[base] = {size, native, {}};
  return pointer(base);
}

void VirtualMemory::release(void *base, uint64_t size) {
  std::unique_lock lock(mutex_);
  const auto found = reservations_.find(address(base));
  if (found == reservations_.end() || found->second.size != size)
    refuse(TB_INVALID_ARGUMENT, "%p and %llu bytes are no whole reservation", base, number(size));
  if (!found->second.mappings.empty())
    refuse(TB_FAILED_PRECONDITION, "the range at %p has %zu mappings: unmap them first", base,
           found->second.mappings.size());
  const acl::Error error = runtime_.give_back(0, host_, runtime_.library.aclrtReleaseMemAddress, found->second.native);
  if (error && tb_is_refusal(status_of(error))) runtime_.fail("aclrtReleaseMemAddress", error);
  reservations_.erase(found);
  runtime_.check("aclrtReleaseMemAddress", error);
}

std::shared_ptr<Physical> *VirtualMemory::create(int32_t device, uint64_t size) {
  const uint64_t unit = granule(device, acl::minimum_option);
  if (size == 0 || size % unit)
    refuse(TB_INVALID_ARGUMENT, "%llu bytes are not made of whole granules of %llu", number(size), number(unit));
  auto physical =
      std::make_unique<std::shared_ptr<Physical>>(std::make_shared<Physical>(runtime_, device, unit, size, host_));
  std::lock_guard lock(mutex_);
  ++physicals_;
  return physical.release();
}

void VirtualMemory::destroy(std::shared_ptr<Physical> *physical) {
  {
    std::lock_guard lock(mutex_);
    --physicals_;
  }
  delete physical; // mappings keep the memory
}

VirtualMemory::Place VirtualMemory::holder(uintptr_t base, uint64_t size) {
  auto found = reservations_.upper_bound(base);
  if (found == reservations_.begin()) return reservations_.end();
  --found;
  const uint64_t offset = base - found->first;
  return offset < found->second.size && size <= found->second.size - offset ? found : reservations_.end();
}

void VirtualMemory::map(void *at, uint64_t size, const std::shared_ptr<Physical> &physical, uint64_t offset) {
  const uint64_t unit = physical->size / physical->pieces.size();
  const uintptr_t base = address(at);
  if (size == 0 || size % unit || offset % unit || base % unit || offset > physical->size ||
      size > physical->size - offset)
    refuse(TB_INVALID_ARGUMENT, "%llu bytes from %llu on at %p are not whole granules of %llu within %llu bytes",
           number(size), number(offset), at, number(unit), number(physical->size));
  std::lock_guard lock(mutex_);
  const Place range = holder(base, size);
  if (range == reservations_.end())
    refuse(TB_INVALID_ARGUMENT, "%llu bytes at %p are not inside a reservation", number(size), at);
  auto &mappings = range->second.mappings;
  const auto next = mappings.lower_bound(base);
  const bool taken = (next != mappings.end() && next->first - base < size) ||
                     (next != mappings.begin() && base - std::prev(next)->first < std::prev(next)->second.size);
  if (taken) refuse(TB_ALREADY_EXISTS, "something is mapped between %p and %llu bytes on", at, number(size));
  mappings[base] = {size, physical, offset / unit, std::vector<bool>(size / unit)};
}

void VirtualMemory::unmap_piece(Mapping &mapping, uintptr_t base, size_t piece) {
  if (!mapping.usable[piece]) return;
  const uint64_t unit = mapping.size / mapping.usable.size();
  mapping.usable[piece] = false;
  const auto &unmap = runtime_.library.aclrtUnmapMem;
  const acl::Error error = runtime_.give_back(mapping.physical->device, host_, unmap, pointer(base + piece * unit));
  runtime_.check(unmap.name, error);
}

void VirtualMemory::unmap(void *at, uint64_t size) {
  std::lock_guard lock(mutex_);
  const Place range = holder(address(at), size);
  const auto refuse_part = [&] {
    refuse(TB_INVALID_ARGUMENT, "%p and %llu bytes are no whole mapping", at, number(size));
  };
  if (range == reservations_.end()) refuse_part();
  auto &mappings = range->second.mappings;
  uint64_t whole = 0; // of mappings from `at` on
  auto last = mappings.find(address(at));
  for (; last != mappings.end() && last->first == address(at) + whole && whole < size; ++last)
    whole += last->second.size;
  if (size == 0 || whole != size) refuse_part();
  std::unique_ptr<Failure> failure; // all pieces go, whatever happens to one
  for (auto mapping = mappings.find(address(at)); mapping != last; mapping = mappings.erase(mapping)) {
    for (size_t piece = 0; piece < mapping->second.usable.size(); ++piece) {
      try {
        unmap_piece(mapping->second, mapping->first, piece);
      } catch (const Failure &one) {
        // Rule E8: the mapping is gone, so no refusal may be reported.
        const tb_status status = tb_is_refusal(one.status) ? TB_INTERNAL : one.status;
        if (!failure) failure = std::make_unique<Failure>(status, one.code, one.text);
      }
    }
  }
  if (failure) throw *failure;
}

void VirtualMemory::set_access(void *at, uint64_t size, const int32_t *devices, uint32_t device_count,
                               uint32_t access) {
  if (access != 0 && access != 1 && access != 3)
    refuse(TB_INVALID_ARGUMENT, "access %u is none of 0 (none), 1 (read), 3 (read and write)", access);
  std::lock_guard lock(mutex_);
  const Place range = holder(address(at), size);
  if (range == reservations_.end() || size == 0)
    refuse(TB_INVALID_ARGUMENT, "%llu bytes at %p are not inside a reservation", number(size), at);
  struct Piece {
    uintptr_t base;
    Mapping *mapping;
    size_t number;
  };
  std::vector<Piece> pieces;
  auto &mappings = range->second.mappings;
  for (uintptr_t base = address(at); base < address(at) + size;) {
    auto after = mappings.upper_bound(base);
    const bool mapped = after != mappings.begin() && base - std::prev(after)->first < std::prev(after)->second.size;
    if (!mapped) refuse(TB_INVALID_ARGUMENT, "nothing is mapped at %p, inside the range", pointer(base));
    auto &[start, mapping] = *std::prev(after);
    const uint64_t unit = mapping.size / mapping.usable.size();
    if ((base - start) % unit || (address(at) + size - base) % unit)
      refuse(TB_INVALID_ARGUMENT, "access is given to whole granules of %llu", number(unit));
    for (uint32_t each = 0; each < device_count; ++each)
      if (devices[each] != mapping.physical->device)
        refuse(TB_UNSUPPORTED, "memory of device %d is mapped for that device only, not for device %d",
               mapping.physical->device, devices[each]);
    pieces.push_back({start, &mapping, (base - start) / unit});
    base += unit;
  }
  for (const Piece &piece : pieces) {
    Mapping &mapping = *piece.mapping;
    if (mapping.usable[piece.number] == (access != 0)) continue; // read alone: the library knows no such mapping
    if (access == 0) {
      unmap_piece(mapping, piece.base, piece.number);
      continue;
    }
    const Bound bound(runtime_, mapping.physical->device, host_);
    const uint64_t unit = mapping.size / mapping.usable.size();
    runtime_.call(runtime_.library.aclrtMapMem, pointer(piece.base + piece.number * unit), size_t(unit), size_t(0),
                  mapping.physical->pieces[mapping.first + piece.number], uint64_t(0));
    mapping.usable[piece.number] = true;
  }
}

bool VirtualMemory::find(const void *where, Mapped *out) {
  std::lock_guard lock(mutex_);
  const Place range = holder(address(where), 1);
  if (range == reservations_.end()) return false;
  const auto after = range->second.mappings.upper_bound(address(where));
  if (after == range->second.mappings.begin()) return false;
  const auto &[base, mapping] = *std::prev(after);
  if (address(where) - base >= mapping.size) return false;
  *out = {base, mapping.size, mapping.physical->device};
  return true;
}

VirtualMemory::Counts VirtualMemory::counts() {
  std::lock_guard lock(mutex_);
  return {reservations_.size(), physicals_};
}

} // namespace tb::drivers::npu
