// Allocates, frees and checks the blocks of one device.
#include "drivers/sim/memory/blocks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace tb::drivers::sim {

namespace {

constexpr uint64_t unit_bytes = 128;       // regions start and end at its multiples
constexpr uint64_t front_guard = 128 + 64; // red zone before a block; makes its address an odd multiple of 64
constexpr uint64_t back_guard = 128;       // red zone after it, at least
constexpr uint64_t quarantine = 8u << 20;  // bytes of freed memory that keep their poison; the last block always does

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

// The first byte of [begin, end) that is not a red zone's, or end.
const std::byte *first_damaged(const std::byte *begin, const std::byte *end) {
  return std::find_if(begin, end, [](std::byte byte) { return byte != std::byte(red_zone); });
}

} // namespace

Blocks::Blocks(int32_t device, const Options &options)
    : device_(device), capacity_(options.capacity), arena_(options.capacity, options.isolated),
      extents_(0, arena_.blocks_end()) {}

bool Blocks::allocate(uint64_t size, void **out) {
  if (size > capacity_) return false;
  const uint64_t charged = round_up(std::max<uint64_t>(size, 1), block_alignment);
  const uint64_t region_size = round_up(front_guard + size + back_guard, unit_bytes);
  Block block;
  {
    std::lock_guard lock(mutex_);
    if (charged > capacity_ - used_) return false;
    auto region = extents_.take(region_size);
    if (!region) {
      expire(true);
      region = extents_.take(region_size);
    }
    if (!region) return false;
    block = {*region, region_size, *region + front_guard, size, charged};
    blocks_.emplace(block.region, block);
    used_ += charged;
    ++live_;
    if (*region + region_size > high_) {
      high_ = *region + region_size;
      if (open_) arena_.open(high_);
    }
  }
  // No other thread knows the region yet, so it is written without the lock.
  std::byte *inner = arena_.inner(0);
  const uint64_t end = block.begin + size;
  std::memset(inner + block.region, red_zone, front_guard);
  std::memset(inner + block.begin, poison_new, size);
  std::memset(inner + end, red_zone, block.region + region_size - end);
  std::lock_guard lock(mutex_);
  blocks_.at(block.region).armed = true;
  *out = arena_.address(block.begin);
  return true;
}

void Blocks::poison(void *address) {
  const auto found = find(reinterpret_cast<uintptr_t>(address));
  if (found && found->block.state != State::gone)
    std::memset(arena_.inner(found->block.begin), poison_new, found->block.size);
}

Blocks::Map::iterator Blocks::holding(uint64_t offset) {
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  return offset - block->first < block->second.region_size ? block : blocks_.end();
}

Blocks::Map::iterator Blocks::starting(void *address) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(address);
  return arena_.holds(number) ? holding(arena_.offset_of(number)) : blocks_.end();
}

Blocks::Freed Blocks::begin_free(void *address, bool refund) {
  std::lock_guard lock(mutex_);
  const auto found = starting(address);
  if (found == blocks_.end()) return Freed::unknown;
  Block &block = found->second;
  if (arena_.address(block.begin) != address) return Freed::inside;
  if (block.state == State::gone) {
    --live_;
    retire(found);
    return Freed::gone;
  }
  if (block.state != State::live) return Freed::twice;
  block.state = State::freed;
  --live_;
  if (refund) used_ -= std::exchange(block.charged, 0);
  return Freed::ok;
}

std::optional<std::string> Blocks::bury(void *address) {
  std::optional<std::string> text;
  Block block;
  {
    std::lock_guard lock(mutex_);
    const auto found = starting(address);
    if (found == blocks_.end() || found->second.state != State::freed) return text; // the device was lost meanwhile
    text = damage(found->second);
    block = found->second;
  }
  std::memset(arena_.inner(block.region), poison_freed, block.region_size);
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block.region);
  found->second.state = State::dead;
  used_ -= std::exchange(found->second.charged, 0);
  quarantine_.push_back(block.region);
  quarantined_ += block.region_size;
  expire(false);
  return text;
}

void Blocks::expire(bool all) {
  while (!quarantine_.empty() && (all || (quarantined_ > quarantine && quarantine_.size() > 1))) {
    const auto oldest = blocks_.find(quarantine_.front());
    quarantine_.pop_front();
    quarantined_ -= oldest->second.region_size;
    retire(oldest);
  }
}

void Blocks::retire(Map::iterator block) {
  const uint64_t begin = block->second.region, size = block->second.region_size;
  const Extents::Range whole = extents_.give(begin, size);
  // Pages beside it may have become wholly free, but no more than one on either side.
  constexpr uint64_t page = 65536;
  const uint64_t first = std::max(whole.begin, begin > page ? begin - page : 0);
  arena_.punch(first, std::min(whole.begin + whole.size, begin + size + page) - first);
  blocks_.erase(block);
}

std::optional<std::string> Blocks::damage(Block &block) {
  if (!block.armed) return std::nullopt;
  std::byte *inner = arena_.inner(0);
  std::byte *begin = inner + block.begin, *end = begin + block.size;
  std::byte *front = inner + block.region, *back = inner + block.region + block.region_size;
  char text[256];
  const auto *before = first_damaged(front, begin), *after = first_damaged(end, back);
  if (before == begin && after == back) return std::nullopt;
  if (after != back) {
    std::snprintf(
        text, sizeof text,
        "a write past the end of a block: byte %llu of the block of %llu bytes at %p on device %d was written",
        static_cast<unsigned long long>(after - begin), static_cast<unsigned long long>(block.size),
        static_cast<void *>(arena_.address(block.begin)), device_);
  } else {
    std::snprintf(
        text, sizeof text,
        "a write before the start of a block: the byte %llu before the block of %llu bytes at %p on device %d "
        "was written",
        static_cast<unsigned long long>(begin - before), static_cast<unsigned long long>(block.size),
        static_cast<void *>(arena_.address(block.begin)), device_);
  }
  std::memset(front, red_zone, static_cast<size_t>(begin - front)); // so that the damage is reported once
  std::memset(end, red_zone, static_cast<size_t>(back - end));
  return text;
}

std::optional<std::string> Blocks::check_red_zones() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(function_ran_, false)) return std::nullopt;
  for (auto &[region, block] : blocks_)
    if (block.state == State::live || block.state == State::freed)
      if (auto text = damage(block)) return text;
  return std::nullopt;
}

void Blocks::note_function() noexcept {
  std::lock_guard lock(mutex_);
  function_ran_ = true;
}

std::optional<Blocks::Found> Blocks::find(uintptr_t address) {
  std::lock_guard lock(mutex_);
  if (!arena_.holds(address)) return std::nullopt;
  const auto found = holding(arena_.offset_of(address));
  if (found == blocks_.end()) return std::nullopt;
  return Found{found->second, arena_.address(found->second.begin)};
}

std::optional<Blocks::Found> Blocks::try_find(uintptr_t address) {
  if (!arena_.holds(address) || !mutex_.try_lock()) return std::nullopt;
  const auto found = holding(arena_.offset_of(address));
  std::optional<Found> result;
  if (found != blocks_.end()) result = Found{found->second, arena_.address(found->second.begin)};
  mutex_.unlock();
  return result;
}

bool Blocks::charge(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > capacity_ - used_) return false;
  used_ += bytes;
  return true;
}

void Blocks::refund(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_ -= bytes;
}

uint64_t Blocks::used() {
  std::lock_guard lock(mutex_);
  return used_;
}

size_t Blocks::live_count() {
  std::lock_guard lock(mutex_);
  return live_;
}

void Blocks::lose() {
  std::lock_guard lock(mutex_);
  expire(true);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto here = block++;
    used_ -= std::exchange(here->second.charged, 0);
    if (here->second.state == State::live) {
      here->second.state = State::gone;
      arena_.punch(here->second.region, here->second.region_size);
    } else if (here->second.state == State::freed) {
      retire(here);
    }
  }
}

void Blocks::open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  arena_.open(high_);
}

void Blocks::shut() {
  std::lock_guard lock(mutex_);
  open_ = false;
  arena_.shut(high_);
}

} // namespace tb::drivers::sim
