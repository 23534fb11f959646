// arena.cpp -- maps a device's memory and allocates parts of it.
#include "arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "world.h"

namespace simcuda {
namespace {

constexpr uint64_t kFreedBytes = 65536;
constexpr uint64_t kAddressesPerByte = 4; // addresses for each byte of capacity; only the use of memory is limited

std::byte *map(uint64_t size, int protection, int file) {
  void *found = mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (found == MAP_FAILED) {
    std::perror("simulated libcuda: no addresses for a device's memory");
    std::abort();
  }
  return static_cast<std::byte *>(found);
}

} // namespace

Arena::Arena(uint64_t capacity)
    : capacity_(capacity), size_(capacity * kAddressesPerByte), file_(memfd_create("simcuda-device", MFD_CLOEXEC)) {
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size_)) != 0) {
    std::perror("simulated libcuda: no memory for a device");
    std::abort();
  }
  inner_ = map(size_, PROT_READ | PROT_WRITE, file_);
  outer_ = map(size_, PROT_NONE, file_);
  free_[0] = size_;
}

Arena::~Arena() {
  munmap(inner_, size_);
  munmap(outer_, size_);
  close(file_);
}

uint64_t Arena::take(uint64_t size, uint64_t alignment) {
  if (size > capacity_ - used_) return kNone;
  for (const auto &[offset, room] : free_) {
    // The alignment is that of the outer mapping's addresses.
    const uint64_t skip = (alignment - outer(offset) % alignment) % alignment;
    if (room < skip || room - skip < size) continue;
    const uint64_t begin = offset, end = offset + room, taken = offset + skip;
    free_.erase(begin);
    if (skip) free_[begin] = skip;
    if (taken + size < end) free_[taken + size] = end - taken - size;
    used_ += size;
    high_ = high_ < taken + size ? taken + size : high_;
    std::memset(inner_ + taken, kFresh, size);
    return taken;
  }
  return kNone;
}

void Arena::give(uint64_t offset, uint64_t size, bool forget) {
  used_ -= size;
  if (forget) return;
  std::memset(inner_ + offset, kFreed, size < kFreedBytes ? size : kFreedBytes); // enough to make late uses visible
  auto place = free_.emplace(offset, size).first;
  if (const auto next = std::next(place); next != free_.end() && offset + size == next->first) {
    place->second += next->second;
    free_.erase(next);
  }
  if (place == free_.begin()) return;
  const auto before = std::prev(place);
  if (before->first + before->second != place->first) return;
  before->second += place->second;
  free_.erase(place);
}

void Arena::protect(bool accessible) {
  if (!high_) return;
  const uint64_t page = 4096, end = (high_ + page - 1) / page * page;
  mprotect(outer_, end, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

Window::Window() {
  World &all = world();
  std::lock_guard lock(all.mutex);
  if (all.windows++ == 0) all.protect(true);
}

Window::~Window() {
  World &all = world();
  std::lock_guard lock(all.mutex);
  if (--all.windows == 0) all.protect(false);
}

} // namespace simcuda
