// One device's memory: a file in memory, mapped twice.
//
// Callers get addresses of the first mapping, which the host cannot touch while the device is isolated; the driver
// works through the second. After the part for blocks the file has a part for vmm_create, which is visible only through
// the second mapping and the callers' own mappings (virtual_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::drivers::sim {

class Arena {
public:
  // Throws std::system_error when the machine has no room for the addresses.
  Arena(uint64_t capacity, bool isolated);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  uint64_t blocks_end() const noexcept { return blocks_; } // offsets 0 to here are for blocks, the rest for vmm_create
  uint64_t end() const noexcept { return size_; }
  int file() const noexcept { return file_; }
  bool isolated() const noexcept { return isolated_; }
  std::byte *address(uint64_t offset) const noexcept { return outer_ + offset; }
  std::byte *inner(uint64_t offset) const noexcept { return inner_ + offset; }
  bool holds(uintptr_t address) const noexcept { return address - reinterpret_cast<uintptr_t>(outer_) < blocks_; }
  uint64_t offset_of(uintptr_t address) const noexcept { return address - reinterpret_cast<uintptr_t>(outer_); }

  // Gives the pages that are wholly inside the range back to the system.
  void punch(uint64_t begin, uint64_t size) noexcept;
  // Makes the blocks up to an offset accessible to the whole process, or inaccessible.
  void open(uint64_t end) noexcept;
  void shut(uint64_t end) noexcept;

private:
  const uint64_t blocks_, size_;
  const bool isolated_;
  int file_ = -1;
  std::byte *outer_ = nullptr, *inner_ = nullptr;
};

} // namespace tb::drivers::sim
