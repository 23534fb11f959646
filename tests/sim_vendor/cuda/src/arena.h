// arena.h -- one device's memory: a file in memory, mapped twice.
//
// Callers get addresses of the outer mapping, which only running kernels may access (Window). Copies use the inner one.
// Memory for cuMemCreate comes from the same file and is mapped at the addresses that the caller reserved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace simcuda {

class Arena {
public:
  explicit Arena(uint64_t capacity);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  static constexpr uint64_t kNone = ~uint64_t(0);
  // Allocates a part, filled with kFresh, and returns its offset, or kNone if the capacity is used up.
  uint64_t take(uint64_t size, uint64_t alignment);
  // Frees a part. `forget`: another process may still use it, so its bytes count as free but are not allocated again.
  void give(uint64_t offset, uint64_t size, bool forget);
  std::byte *inner(uint64_t offset) const { return inner_ + offset; }
  uintptr_t outer(uint64_t offset) const { return reinterpret_cast<uintptr_t>(outer_) + offset; }
  int file() const { return file_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  void protect(bool accessible); // changes the access to the outer mapping
  static constexpr int kFresh = 0xCB, kFreed = 0xDD;

private:
  const uint64_t capacity_, size_;
  uint64_t used_ = 0, high_ = 0;
  int file_;
  std::byte *inner_, *outer_;
  std::map<uint64_t, uint64_t> free_; // offset -> size
};

// While a Window exists, kernels may access all device memory. So can all other code of the process.
class Window {
public:
  Window();
  ~Window();
  Window(const Window &) = delete;
  Window &operator=(const Window &) = delete;
};

} // namespace simcuda
