// The blocks of one device's memory: poison, red zones, quarantine, and the count of what is in use.
//
// A block has four states. Live: it is the caller's. Freed: mem_free was called; work that was chosen to run before
// that call still sees the data. Dead: it is poisoned and kept in quarantine, so that late uses can be named. Gone: it
// was lost with its device; the caller may still free it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "drivers/sim/device/options.h"
#include "drivers/sim/memory/arena.h"
#include "drivers/sim/memory/extents.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

constexpr int poison_new = 0xCB, poison_freed = 0xDD, red_zone = 0xFD;

class Blocks {
public:
  // The ABI promises no more: a block starts at an odd multiple, so that programs that need more alignment fail.
  static constexpr uint64_t block_alignment = 64;

  Blocks(int32_t device, const Options &options);

  enum class State { live, freed, dead, gone };
  struct Block {
    uint64_t region, region_size; // of the file, with the red zones
    uint64_t begin, size;         // of the file, as asked
    uint64_t charged;
    State state = State::live;
    bool armed = false; // the red zones are written
  };
  // A copy of a block's facts and its address.
  struct Found {
    Block block;
    std::byte *address;
  };

  // False: it does not fit. The new block is poisoned, unless that is left to a later poison().
  bool allocate(uint64_t size, void **out);
  // The contents of a live block become those of fresh memory.
  void poison(void *address);
  enum class Freed { ok, inside, unknown, twice, gone };
  // The first half of freeing, at the call. `refund`: the bytes count as free from now on, else from bury() on.
  Freed begin_free(void *address, bool refund);
  // The second half, in the order of the steps: poisons. A text when a red zone was damaged.
  std::optional<std::string> bury(void *address);
  // Damage of any block, reported once. Cheap while no function has run since the last check.
  std::optional<std::string> check_red_zones();
  void note_function() noexcept; // a function that could write anywhere has run

  std::optional<Found> find(uintptr_t address); // live or not, also a red zone's address
  // As find(), for a signal handler: nothing when another thread holds the lock.
  std::optional<Found> try_find(uintptr_t address);
  std::byte *inner(uint64_t offset) const noexcept { return arena_.inner(offset); }
  Arena &arena() noexcept { return arena_; }

  // Shares of the capacity that vmm_create takes.
  bool charge(uint64_t bytes);
  void refund(uint64_t bytes);
  uint64_t used();
  uint64_t capacity() const noexcept { return capacity_; }
  size_t live_count();
  // The device was lost: everything is gone, and no byte is in use.
  void lose();
  void open();
  void shut();

private:
  using Map = std::map<uint64_t, Block>; // by region

  // All with the lock held.
  Map::iterator holding(uint64_t offset);
  Map::iterator starting(void *address);
  std::optional<std::string> damage(Block &block);
  void expire(bool all);
  void retire(Map::iterator block);

  const int32_t device_;
  const uint64_t capacity_;
  Arena arena_;
  std::mutex mutex_;
  Extents extents_;
  Map blocks_;
  std::deque<uint64_t> quarantine_; // regions, the oldest first
  uint64_t quarantined_ = 0;
  uint64_t used_ = 0;
  uint64_t high_ = 0; // no block has ever reached beyond
  size_t live_ = 0;   // not freed by the caller, also when gone
  bool open_ = false;
  bool function_ran_ = false;
};

} // namespace tb::drivers::sim
