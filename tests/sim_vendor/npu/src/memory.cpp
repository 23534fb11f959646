// memory.cpp -- stores the bytes of device memory, and keeps the owners of addresses.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "entry.h"

namespace sim {
namespace {

constexpr int kFresh = 0xA5, kFreed = 0xDD; // the bytes of new and of freed memory
constexpr uint64_t kAlignment = 64, kRounding = 32, kPage = 4096, kHugePage = 2 << 20;

uintptr_t value(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void *map_pages(uint64_t size, int protection) {
  void *pages = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

// The entry of `ranges` that holds the address, or end().
template <class Map, class Size> auto holder(Map &ranges, uintptr_t address, Size size_of) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return address - found->first < size_of(found->second) ? found : ranges.end();
}

uint64_t plain(uint64_t size) { return size; }

} // namespace

Memory::~Memory() = default;

void Memory::start(int32_t devices, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  for (Arena &arena : arenas_) {
    munmap(arena.addresses, arena.size);
    munmap(arena.bytes, arena.size);
  }
  arenas_.assign(static_cast<size_t>(devices), {});
  blocks_.clear();
  mappings_.clear();
  physicals_.clear();
  for (Arena &arena : arenas_) {
    arena.size = bytes;
    arena.addresses = static_cast<uint8_t *>(map_pages(bytes, PROT_NONE));
    arena.bytes = static_cast<uint8_t *>(map_pages(bytes, PROT_READ | PROT_WRITE));
    if (!arena.addresses || !arena.bytes) std::abort(); // this machine has not enough addresses
    arena.holes = {{0, bytes}};
  }
}

bool Memory::take(Arena &arena, uint64_t size, uint64_t alignment, uint64_t *out) {
  for (auto hole = arena.holes.begin(); hole != arena.holes.end(); ++hole) {
    const uint64_t start = (hole->first + alignment - 1) / alignment * alignment, end = hole->first + hole->second;
    if (start > end || end - start < size) continue;
    const uint64_t before = start - hole->first;
    if (before)
      hole->second = before;
    else
      arena.holes.erase(hole);
    if (start + size < end) arena.holes[start + size] = end - start - size;
    arena.used += size;
    std::memset(arena.bytes + start, kFresh, size);
    *out = start;
    return true;
  }
  return false;
}

void Memory::give(Arena &arena, uint64_t offset, uint64_t size) {
  std::memset(arena.bytes + offset, kFreed, size);
  arena.used -= size;
  auto place = arena.holes.emplace(offset, size).first;
  if (const auto next = std::next(place); next != arena.holes.end() && offset + size == next->first) {
    place->second += next->second;
    arena.holes.erase(next);
  }
  if (place == arena.holes.begin()) return;
  const auto previous = std::prev(place);
  if (previous->first + previous->second != offset) return;
  previous->second += place->second;
  arena.holes.erase(place);
}

Error Memory::allocate(int32_t device, uint64_t size, void **out) {
  if (!out || size == 0) return fail(kParameter, "EE1020: an allocation of 0 bytes");
  std::lock_guard lock(mutex_);
  Arena &arena = arenas_[static_cast<size_t>(device)];
  const uint64_t rounded = (size + kRounding + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t offset = 0;
  if (rounded < size || !take(arena, rounded, kAlignment, &offset))
    return fail(kOutOfMemory, "EL0004: no %llu bytes left on device %d, which has %llu in use",
                static_cast<unsigned long long>(size), device, static_cast<unsigned long long>(arena.used));
  *out = arena.addresses + offset;
  blocks_[value(*out)] = {device, rounded, size};
  return kOk;
}

Error Memory::release(void *pointer) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(value(pointer));
  if (found == blocks_.end()) return fail(kParameter, "EE1021: %p was not allocated", pointer);
  Arena &arena = arenas_[static_cast<size_t>(found->second.device)];
  give(arena, value(pointer) - value(arena.addresses), found->second.size);
  blocks_.erase(found);
  return kOk;
}

void Memory::usage(int32_t device, uint64_t *free, uint64_t *total) {
  std::lock_guard lock(mutex_);
  const Arena &arena = arenas_[static_cast<size_t>(device)];
  *total = arena.size;
  *free = arena.size - arena.used;
}

Error Memory::allocate_host(uint64_t size, void **out) {
  if (!out || size == 0) return fail(kParameter, "EE1022: a host allocation of 0 bytes");
  const uint64_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  void *memory = rounded < size ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (!memory) return fail(kOutOfMemory, "EL0005: no %llu bytes of host memory", static_cast<unsigned long long>(size));
  std::memset(memory, kFresh, rounded);
  std::lock_guard lock(mutex_);
  pinned_[value(memory)] = rounded;
  *out = memory;
  return kOk;
}

Error Memory::release_host(void *pointer) {
  std::lock_guard lock(mutex_);
  if (!pinned_.erase(value(pointer))) return fail(kParameter, "EE1023: %p is no pinned memory", pointer);
  std::free(pointer);
  return kOk;
}

bool Memory::overlaps_host(uintptr_t address, uint64_t size) {
  for (const auto *ranges : {&pinned_, &registered_}) {
    const auto after = ranges->lower_bound(address);
    if (after != ranges->end() && after->first < address + size) return true;
    if (after != ranges->begin() && std::prev(after)->first + std::prev(after)->second > address) return true;
  }
  return false;
}

Error Memory::register_host(void *pointer, uint64_t size) {
  if (!pointer || value(pointer) % kPage || size == 0)
    return fail(kParameter, "EE1024: %p is not the start of a page", pointer);
  std::lock_guard lock(mutex_);
  if (overlaps_host(value(pointer), size)) return fail(kRegistered, "EE1025: %p is registered already", pointer);
  registered_[value(pointer)] = size;
  return kOk;
}

Error Memory::unregister_host(void *pointer) {
  std::lock_guard lock(mutex_);
  return registered_.erase(value(pointer)) ? kOk : fail(kNotRegistered, "EE1026: %p is not registered", pointer);
}

Error Memory::reserve(uint64_t size, void **out) {
  if (!out || size == 0 || size % kHugePage) return fail(kParameter, "EE1030: a range is made of whole huge pages");
  // The range consists of whole huge pages, because the hardware requires this alignment of mappings.
  if (size > UINT64_MAX / 2) return fail(kOutOfMemory, "EL0006: no such range of addresses");
  auto *room = static_cast<uint8_t *>(map_pages(size + kHugePage, PROT_NONE));
  if (!room) return fail(kOutOfMemory, "EL0006: no such range of addresses");
  const uint64_t before = (kHugePage - value(room) % kHugePage) % kHugePage;
  if (before) munmap(room, before);
  munmap(room + before + size, kHugePage - before);
  std::lock_guard lock(mutex_);
  *out = room + before;
  reserved_[value(*out)] = size;
  return kOk;
}

Error Memory::unreserve(void *address) {
  std::lock_guard lock(mutex_);
  const auto found = reserved_.find(value(address));
  if (found == reserved_.end()) return fail(kParameter, "EE1031: %p was not reserved", address);
  const auto mapping = mappings_.lower_bound(found->first);
  if (mapping != mappings_.end() && mapping->first < found->first + found->second)
    return fail(kParameter, "EE1032: the range at %p has mappings", address);
  munmap(address, found->second);
  reserved_.erase(found);
  return kOk;
}

Error Memory::create_physical(int32_t device, uint64_t size, void **out) {
  if (!out || size == 0 || size % kHugePage) return fail(kParameter, "EE1033: memory is made of whole huge pages");
  std::lock_guard lock(mutex_);
  auto physical = std::make_unique<Physical>(Physical{device, 0, size});
  if (!take(arenas_[static_cast<size_t>(device)], size, kPage, &physical->offset))
    return fail(kOutOfMemory, "EL0007: device %d has no %llu bytes left", device,
                static_cast<unsigned long long>(size));
  *out = physical.get();
  physicals_.emplace(*out, std::move(physical));
  return kOk;
}

void Memory::drop(Physical *physical) {
  if (!physical->destroyed || physical->mapped) return;
  give(arenas_[static_cast<size_t>(physical->device)], physical->offset, physical->size);
  physicals_.erase(physical);
}

Error Memory::destroy_physical(void *handle) {
  std::lock_guard lock(mutex_);
  const auto found = physicals_.find(handle);
  if (found == physicals_.end() || found->second->destroyed) return fail(kHandle, "EE1034: %p is no memory", handle);
  found->second->destroyed = true;
  drop(found->second.get());
  return kOk;
}

Error Memory::map(void *address, uint64_t size, void *handle) {
  std::lock_guard lock(mutex_);
  const auto physical = physicals_.find(handle);
  if (physical == physicals_.end() || physical->second->destroyed)
    return fail(kHandle, "EE1034: %p is no memory", handle);
  if (physical->second->size != size) return fail(kParameter, "EE1035: a mapping is as large as its memory");
  const auto range = holder(reserved_, value(address), plain);
  if (range == reserved_.end() || range->first + range->second < value(address) + size)
    return fail(kParameter, "EE1036: %p is in no reserved range", address);
  const auto next = mappings_.lower_bound(value(address));
  const bool taken =
      (next != mappings_.end() && next->first < value(address) + size) ||
      (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.size > value(address));
  if (taken) return fail(kParameter, "EE1037: something is mapped at %p", address);
  mappings_[value(address)] = {size, physical->second.get()};
  ++physical->second->mapped;
  return kOk;
}

Error Memory::unmap(void *address) {
  std::lock_guard lock(mutex_);
  const auto found = mappings_.find(value(address));
  if (found == mappings_.end()) return fail(kParameter, "EE1038: no mapping starts at %p", address);
  Physical *physical = found->second.physical;
  mappings_.erase(found);
  --physical->mapped;
  drop(physical);
  return kOk;
}

Place Memory::place(const void *pointer, int32_t *device) {
  const uintptr_t address = value(pointer);
  std::lock_guard lock(mutex_);
  for (size_t number = 0; number < arenas_.size(); ++number)
    if (address - value(arenas_[number].addresses) < arenas_[number].size)
      return *device = static_cast<int32_t>(number), Place::device;
  if (holder(reserved_, address, plain) != reserved_.end()) {
    const auto mapping = holder(mappings_, address, [](const Mapping &each) { return each.size; });
    *device = mapping == mappings_.end() ? 0 : mapping->second.physical->device;
    return Place::device;
  }
  *device = 0;
  const bool pinned =
      holder(pinned_, address, plain) != pinned_.end() || holder(registered_, address, plain) != registered_.end();
  return pinned ? Place::pinned : Place::pageable;
}

Error Memory::access(const void *address, uint64_t size,
                     const std::function<void(uint8_t *bytes, uint64_t size)> &piece) {
  int32_t device = 0;
  if (place(address, &device) != Place::device) {
    piece(static_cast<uint8_t *>(const_cast<void *>(address)), size);
    return kOk;
  }
  uintptr_t at = value(address);
  const uintptr_t end = at + size;
  while (at < end) {
    uint8_t *bytes = nullptr;
    uint64_t room = 0;
    {
      std::lock_guard lock(mutex_);
      for (const Arena &arena : arenas_)
        if (at - value(arena.addresses) < arena.size) {
          bytes = arena.bytes + (at - value(arena.addresses));
          room = value(arena.addresses) + arena.size - at;
        }
      const auto mapping = holder(mappings_, at, [](const Mapping &each) { return each.size; });
      if (!bytes && mapping != mappings_.end()) {
        const Physical &physical = *mapping->second.physical;
        const uint64_t offset = at - mapping->first;
        bytes = arenas_[static_cast<size_t>(physical.device)].bytes + physical.offset + offset;
        room = physical.size - offset;
      }
    }
    if (!bytes) return fail(kCopyFault, "EZ1001: no memory at device address %p", reinterpret_cast<const void *>(at));
    const uint64_t part = room < end - at ? room : end - at;
    piece(bytes, part);
    at += part;
  }
  return kOk;
}

bool Memory::locate(int32_t device, const void *address, uint64_t size, std::vector<Piece> *pieces) {
  uintptr_t at = value(address);
  const uintptr_t end = at + size;
  std::lock_guard lock(mutex_);
  const auto block = holder(blocks_, at, [](const Range &each) { return each.asked; });
  if (block != blocks_.end()) {
    if (block->second.device != device || block->second.asked - (at - block->first) < size) return false;
    const Arena &arena = arenas_[static_cast<size_t>(device)];
    pieces->push_back({arena.bytes + (at - value(arena.addresses)), size});
    return true;
  }
  while (at < end) {
    const auto mapping = holder(mappings_, at, [](const Mapping &each) { return each.size; });
    if (mapping == mappings_.end() || mapping->second.physical->device != device) return false;
    const uint64_t offset = at - mapping->first, room = mapping->second.size - offset;
    const uint64_t part = room < end - at ? room : end - at;
    uint8_t *bytes = arenas_[static_cast<size_t>(device)].bytes + mapping->second.physical->offset + offset;
    if (!pieces->empty() && pieces->back().bytes + pieces->back().size == bytes)
      pieces->back().size += part;
    else
      pieces->push_back({bytes, part});
    at += part;
  }
  return true;
}

Memory::Counts Memory::counts() {
  std::lock_guard lock(mutex_);
  return {blocks_.size(), pinned_.size(), registered_.size(), physicals_.size(), reserved_.size()};
}

} // namespace sim
