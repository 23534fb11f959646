// The memory that a driver gave, by address, and memory that was given back recently, for the layer validate.
//
// Looking up costs one uncontended lock: readers take one of several locks by thread, a change takes all of them.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "layers/framework/objects.h"
#include "layers/validate/progress.h"

namespace tb::layers {

struct Range {
  Kind kind = Kind::none;
  int32_t device = -1;
  uint64_t size = 0;
  bool size_known = true;
  Slot made_by = Slot::count;
  uint64_t made = 0;
  uint64_t ended = 0; // for those given back
  Slot ended_by = Slot::count;
  const void *owner = nullptr; // the module of a variable
  std::shared_ptr<BlockUse> use{};

  bool on_host() const { return kind == Kind::host_block || kind == Kind::registered_host; }
};

struct FoundRange {
  uintptr_t base;
  Range range;
  uint64_t reaches; // bytes from the address to the end, over neighbouring mappings too
};

class Ranges {
public:
  // Replaces ranges that overlap: the driver gave those addresses again.
  void add(const void *base, Range range);
  // Ends the live range that begins at `base`, which is remembered as ended by this call. False: there is none.
  bool end(const void *base, uint64_t call, Slot by);
  // Undoes that: the call was refused.
  void revive(const void *base, uint64_t call);
  // The live range that holds the address.
  std::optional<FoundRange> find(const void *address) const;
  // The range that was given back last among those that held the address.
  std::optional<FoundRange> find_ended(const void *address) const;
  // Calls body(base, range) for each living one; do not call back from it.
  template <class Body> void each(Body &&body) const {
    const std::lock_guard lock(readers_[0].mutex);
    for (const auto &[base, range] : living_) body(base, range);
  }

  // What a copy needs to know, without taking a shared count: body(base, range, reaches) under the reader's lock.
  template <class Body> bool with(const void *address, Body &&body) const {
    const std::lock_guard lock(reader());
    const auto found = holder(address);
    if (found == living_.end()) return false;
    body(found->first, found->second, reach(found, address));
    return true;
  }

private:
  using Map = std::map<uintptr_t, Range>;
  static constexpr size_t remembered = 4096; // ranges given back
  struct alignas(64) Reader {
    std::mutex mutex;
  };
  std::mutex &reader() const;
  Map::const_iterator holder(const void *address) const;
  uint64_t reach(Map::const_iterator range, const void *address) const;
  template <class Body> void change(Body &&body);

  mutable std::array<Reader, 4> readers_; // each makes a change about 15 ns slower
  Map living_;
  std::deque<std::pair<uintptr_t, Range>> ended_; // the newest first
};

} // namespace tb::layers
