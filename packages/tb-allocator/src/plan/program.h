// program.h -- a step with a place for every allocation, and what has to happen before each place is used again.
//
// An allocation is served by its position in the step: its size and stream are compared, and the blocks that had its
// bytes before must have been freed. That alone keeps allocated blocks apart, whatever else the step does. Where such a
// block was used on another stream, the stream of the new one waits for an event that was recorded at the free.
//
// Guarded by the store's lock, except for `driver` and the events' handles.
#pragma once

#include <memory>
#include <vector>

#include "blocks/block_store.h"
#include "host.h"
#include "plan/placement.h"
#include "plan/recording.h"

namespace tb::allocator {

inline constexpr uint32_t none = UINT32_MAX;

class Program final : public PlacedBlocks, public std::enable_shared_from_this<Program> {
public:
  struct Entry {
    uint64_t size, offset = 0;
    uint32_t stream;
    bool placed = false;                 // otherwise it outlives the step, and the heap serves it
    uint32_t after = 0, after_end = 0;   // in after_: entries that had its bytes before, in the same step
    uint32_t needs = 0, needs_end = 0;   // in needs_
    uint32_t events = 0, events_end = 0; // in recorded_: to record when it is freed
    uint64_t uses = 0;                   // bits of other streams
    uint64_t earlier = 0;                // bits of streams that may have used its bytes in earlier steps
    uint64_t freed_at = 0;
    tb_block *block = nullptr;
  };
  struct Wait {
    tb_event *event;
    uint32_t stream; // that it was recorded on
    uint64_t covers; // work that the stream got up to this time is done after the event
  };
  enum class Answer { served, unplaced, diverged };

  // Throws std::bad_alloc. More than 64 streams: everything is left unplaced.
  Program(const Driver &driver, const std::vector<Recorded> &step, double seconds);
  ~Program() override;
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  tb_status make_events(int32_t device);
  // A step begins. Records an event on each stream whose memory others use. The lock must not be held.
  void begin(Lock &lock);
  Answer next(uint64_t size, const tb_stream *stream, tb_block **out, std::vector<Wait> *waits);
  void waited(const tb_block *block, const Wait &wait) noexcept;
  // PlacedBlocks, for the heap.
  tb_block *find(const char *address) noexcept override;
  void freed(tb_block *block) noexcept override;
  std::vector<tb_block> row() const override;

  bool expects(const tb_block *block, const Use *uses) const noexcept;
  // Of a block that was just freed: each event between `events` and `events_end` is recorded, without the lock.
  const Entry &entry_of(const tb_block *block) const { return entries[block->bin]; }
  struct Event {
    tb_event *handle = nullptr;
    uint32_t stream = 0;
    uint64_t covers = 0;
  };
  Event &event(uint32_t index) { return events_[recorded_[index]]; } // of entry.events to entry.events_end

  const Driver driver;
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<Pool>> pools; // by stream: what the records of its blocks refer to
  Segment *segment = nullptr;
  uint64_t bytes = 0, peak = 0; // of the places; allocated at one time at most
  size_t placed = 0, allocated = 0, cursor = 0;
  uint64_t handovers = 0; // waits for other streams

private:
  struct Need {
    uint32_t entry, stream; // the stream's use of that entry must be done
    uint32_t event;         // in events_; none: another event covers it, if the step runs as it was recorded
  };
  void lay_out(const std::vector<Recorded> &step, double seconds);
  void find_order(const std::vector<Recorded> &step);
  void find_earlier();
  void assign_events(const std::vector<Recorded> &step);
  uint64_t users(const Entry &entry) const { return entry.uses | uint64_t{1} << entry.stream; }
  uint64_t &known(uint32_t by, uint32_t of) { return known_[by * pools.size() + of]; }

  std::vector<uint32_t> after_, recorded_;
  std::vector<Need> needs_;
  std::vector<Event> events_, begin_;
  std::vector<uint64_t> known_; // by two streams: up to which time the first waits for the second
  uint64_t clock_ = 1, begin_at_ = 1;
  uint64_t ordered_ = 0; // bits of streams that are `earlier` ones of some entry
};

} // namespace tb::allocator
