// Pinned and registered host memory.
#include "drivers/sim/memory/pinned.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "drivers/common/error_text.h"
#include "drivers/sim/memory/blocks.h"

namespace tb::drivers::sim {

namespace {
constexpr uint64_t quarantine = 4u << 20; // bytes
}

void Pinned::Release::operator()(std::byte *memory) const noexcept { std::free(memory); }

tb_status Pinned::allocate(int32_t device, uint64_t size, void **out) {
  const bool absurd = size > (uint64_t(1) << 46); // rounding up must not overflow
  const uint64_t whole = (std::max<uint64_t>(size, 1) + block_alignment - 1) / block_alignment * block_alignment;
  Owned memory(absurd ? nullptr : static_cast<std::byte *>(std::aligned_alloc(block_alignment, whole)));
  if (!memory) return fail(host_, TB_OUT_OF_MEMORY, "the system refused %s of pinned host memory", ByteText(size).text);
  std::memset(memory.get(), poison_new, whole);
  std::byte *address = memory.get();
  std::lock_guard lock(mutex_);
  ranges_.emplace(reinterpret_cast<uintptr_t>(address), Range{size, device, std::move(memory)});
  *out = address;
  return TB_OK;
}

Pinned::Ranges::iterator Pinned::holding(uintptr_t address) {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return address - range->first < std::max<uint64_t>(range->second.size, 1) ? range : ranges_.end();
}

tb_status Pinned::begin_free(void *pointer) {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges_.end())
    return fail(host_, TB_INVALID_ARGUMENT, "%p is not pinned host memory of this driver, or is free already", pointer);
  if (!found->second.memory)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is registered host memory: use mem_unregister_host", pointer);
  freed_.emplace(pointer, Dead{std::move(found->second.memory), found->second.size});
  ranges_.erase(found);
  return TB_OK;
}

void Pinned::bury(void *pointer) {
  std::deque<Dead> expired; // freed after the lock
  std::lock_guard lock(mutex_);
  const auto found = freed_.find(pointer);
  std::memset(pointer, poison_freed, found->second.size);
  quarantined_ += found->second.size;
  quarantine_.push_back(std::move(found->second));
  freed_.erase(found);
  while (quarantined_ > quarantine && quarantine_.size() > 1) {
    quarantined_ -= quarantine_.front().size;
    expired.push_back(std::move(quarantine_.front()));
    quarantine_.pop_front();
  }
}

tb_status Pinned::register_range(int32_t device, void *pointer, uint64_t size) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(pointer);
  if (size == 0 || start + size < start)
    return fail(host_, TB_INVALID_ARGUMENT, "a range of %llu bytes at %p cannot be registered",
                static_cast<unsigned long long>(size), pointer);
  std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(start);
  auto other = holding(start);
  if (other == ranges_.end() && next != ranges_.end() && next->first < start + size) other = next;
  if (other != ranges_.end())
    return fail(host_, TB_ALREADY_EXISTS,
                "the range overlaps pinned memory of %llu bytes at %p that the driver knows already",
                static_cast<unsigned long long>(other->second.size), reinterpret_cast<void *>(other->first));
  ranges_.emplace(start, Range{size, device, nullptr});
  return TB_OK;
}

tb_status Pinned::unregister_range(void *pointer) {
  std::lock_guard lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges_.end() || found->second.memory)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is not the start of registered host memory", pointer);
  ranges_.erase(found);
  return TB_OK;
}

bool Pinned::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  const auto found = holding(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges_.end()) return false;
  out->kind = TB_POINTER_HOST_PINNED;
  out->device = found->second.device;
  out->base = reinterpret_cast<void *>(found->first);
  out->size = found->second.size;
  return true;
}

Pinned::Counts Pinned::counts() {
  std::lock_guard lock(mutex_);
  Counts counts = {};
  for (const auto &[address, range] : ranges_) ++(range.memory ? counts.allocated : counts.registered);
  return counts;
}

} // namespace tb::drivers::sim
