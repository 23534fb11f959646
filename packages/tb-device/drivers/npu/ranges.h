// The memory that the driver has given out, by address. The library knows what kind of memory a pointer is,
// but not where its block begins.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace tb::drivers::npu {

class Ranges {
public:
  enum class Kind { device, pinned, registered };
  struct Range {
    uintptr_t base;
    uint64_t size;
    Kind kind;
    int32_t device;
    bool holds(const void *pointer, uint64_t bytes) const {
      const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) - base;
      return offset <= size && bytes <= size - offset;
    }
  };
  struct Counts {
    size_t device, pinned, registered;
  };

  void add(void *base, uint64_t size, Kind kind, int32_t device);
  // False when the range overlaps one that is known.
  bool add_unless_known(void *base, uint64_t size, Kind kind, int32_t device);
  // Takes the range that begins there out, for one of the threads that ask: before its memory goes back to the library,
  // which may give the address to another thread before the call returns.
  std::optional<Range> take(const void *base, Kind kind);
  void put_back(const Range &range);
  // The range that holds the address.
  std::optional<Range> find(const void *pointer) const;
  // The range that begins there.
  std::optional<Range> starting(const void *base) const;
  Counts counts() const;

private:
  bool overlaps(uintptr_t base, uint64_t size) const;
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Range> ranges_;
};

} // namespace tb::drivers::npu
