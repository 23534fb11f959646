// The queue behind a stream: a ring of closures that are built in place, with many producers and one consumer.
//
// Space is reserved in granules of 64 bytes by one compare-and-swap on the tail, a position that only grows. Each
// granule has an Entry in a separate array, so payload bytes are never mistaken for state; only the entry of a record's
// first granule is used. A record never wraps: if it would, the producer that reserved it commits a skipped record
// first.
//
// Completion is a position too: everything reserved before position p is done when the head has reached p. Events and
// synchronise are therefore a read of the tail and a wait for the head; they queue nothing.
//
// Sleeping. The consumer sleeps on the state word of the entry it waits for; the producer's commit is an exchange on
// the same word, whose old value says whether to wake it. Waiters lower `wake_at_` to their position before they sleep,
// and the consumer makes no system call before the head reaches it.
//
// Waiters that run work. A program that reads a number after every few operators would wake two threads each time, and
// have one more thread than OpenMP counts on. So a waiter wishes for the head after little work; the consumer releases it
// between two records and naps; and waiters take it, run what is left until their position, and return it. Meanwhile
// nobody looks at new records: the consumer takes the head back if one stays for a whole nap, if much is queued, if
// nothing comes for long, or if it is called.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tb/driver.h"

namespace tb::drivers::cpu {

class ClosureQueue {
public:
  static constexpr uint64_t granule_bytes = TB_CLOSURE_ALIGNMENT;
  static constexpr uint64_t granule_count = 16384; // 1 MiB: more than a thousand operators ahead of the worker
  static constexpr uint64_t ahead = 8;             // granules; an operator takes about six
  // The least number of unused granules behind each record. The consumer's processor prefetches neighbouring and
  // following cache lines: without a gap it would take the lines that the producer is about to write.
  static constexpr uint64_t gap_granules = 4;
  // Pauses between two looks of an idle consumer without waiters, 4 to 14 us: each look takes the entry's cache line
  // from the producer that is about to write it, and the producer then waits longer for the line than the consumer
  // gains. A waiter makes the consumer look at once: the count of waiters is in a line that is not written meanwhile.
  static constexpr uint32_t pauses_per_look = 256;
  // A record with its gap and the longest skip before it must fit in an empty queue.
  static constexpr uint64_t largest = (granule_count / 2 - 2 * gap_granules) * granule_bytes;

  enum State : uint32_t { empty = 0, sleeping, ready, skipped, cancelled };
  struct Entry {
    std::atomic<uint32_t> state;
    uint32_t granules;
    const tb_closure *closure;
  };

  ClosureQueue() = default;
  ~ClosureQueue() { release_memory(); }
  ClosureQueue(const ClosureQueue &) = delete;
  ClosureQueue &operator=(const ClosureQueue &) = delete;

  // Memory for one queue, or NULL with errno. Before a queue has memory only its positions may be used.
  static std::byte *map_memory() noexcept;
  static void unmap_memory(std::byte *memory) noexcept;
  void use_memory(std::byte *memory) noexcept; // takes ownership
  void release_memory() noexcept;
  bool has_memory() const noexcept { return entries_.load(std::memory_order_acquire) != nullptr; }

  // ---- producers, any thread ----

  // Storage of `size` bytes (at most largest); `end` is the position after the record. If the queue is full, the call
  // waits, counted in `sleepers` while it sleeps, or returns NULL when may_wait is false. A thread must not reserve
  // while it has an uncommitted reserve of the same queue: a full queue would wait for that one.
  void *reserve(uint64_t size, bool may_wait, uint32_t spin, std::atomic<uint32_t> &sleepers, uint64_t &end) noexcept;
  // Whether `storage` can have come from reserve.
  bool owns(const void *storage) const noexcept;
  void commit(void *storage, const tb_closure *closure) noexcept;
  void cancel(void *storage) noexcept;

  // ---- positions, any thread ----

  uint64_t tail() const noexcept { return tail_.load(std::memory_order_seq_cst); }
  bool done(uint64_t position) const noexcept { return head_.load(std::memory_order_seq_cst) >= position; }
  void wait(uint64_t position, uint32_t spin) noexcept;
  // For a waiter that may run closures: waits for the head or for the position, whichever comes first, but no longer than
  // `spin` pauses, of which it leaves the rest. True: the caller is the consumer until it calls return_head.
  bool take_head(uint64_t position, uint32_t &spin) noexcept;
  void return_head() noexcept;
  // A wait was so long that a wake-up does not matter: the next waits leave the work to the worker.
  void waited_long() noexcept { little_waits_.store(0, std::memory_order_relaxed); }
  // A caller who does not wait for work that is not done wants the consumer to begin it.
  void expect_progress() noexcept {
    if (owner_.load(std::memory_order_relaxed) == nobody) [[unlikely]]
      call_worker();
  }

  // ---- the consumer: the worker, or who took the head ----

  // The committed record at the head, waiting for one; NULL once the queue was ended and everything reserved is done.
  // The worker's.
  Entry *next(uint32_t spin) noexcept;
  // The committed record at the head, or NULL. Of who took the head.
  Entry *committed() const noexcept;
  void *storage(const Entry &entry) const noexcept { return payload_ + (&entry - entries()) * granule_bytes; }
  // The committed record behind `entry`, which came from next() or from this function; NULL while there is none.
  Entry *following(const Entry &entry) const noexcept;
  Entry *following(const void *storage) const noexcept { return following(entry_of(storage)); }
  // The position after the record that next() gave.
  uint64_t end_of(const Entry &entry) const noexcept { return head_.load(std::memory_order_relaxed) + entry.granules; }
  // Gives the record's space back and publishes the new head.
  void finish(Entry &entry) noexcept;

  // Promises that no more work comes: the consumer drains the queue and leaves. Thread-safe, also on the consumer.
  void end() noexcept;
  bool ended() const noexcept { return ended_.load(std::memory_order_seq_cst); }

private:
  enum Owner : uint32_t { worker, nobody, waiter };
  enum Wish : uint32_t { none, when_idle, at_once };

  Entry *entries() const noexcept { return entries_.load(std::memory_order_relaxed); }
  Entry &entry_of(const void *storage) const noexcept;
  void publish(Entry &entry, State state) noexcept;
  void release_head() noexcept;
  bool should_release_head(const Entry &entry, bool found) const noexcept;
  void call_worker() noexcept;
  void wait_counted(uint64_t position, uint32_t spin) noexcept;
  // Sleeps while the word holds `expected`. A first long sleep ends the thread's OpenMP threads (openmp_pause.h).
  static void sleep(std::atomic<uint32_t> &word, uint32_t expected, bool &rested) noexcept;
  // Prefetches the lines to which the next record will be written. The consumer's processor had them last, and fetching
  // them costs nothing while the caller does other work.
  void fetch_ahead(uint64_t granule) const noexcept;
  void wait_for_room(uint64_t strict, uint64_t relaxed, uint32_t spin, std::atomic<uint32_t> &sleepers) noexcept;

  // Lines of producers, of the consumer, and of facts that do not change are kept apart.
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> known_head_{0}; // lags behind head_; spares producers the consumer's line
  alignas(64) std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};    // no sleeping waiter's position is below
  alignas(64) std::atomic<uint32_t> wakes_{0};   // what waiters sleep on
  std::atomic<int> woken_from_{-1};              // the consumer's processor when it last woke them
  alignas(64) std::atomic<uint32_t> waiters_{0}; // in wait() or take_head(), spinning or asleep
  std::atomic<uint32_t> wish_{none};             // of a waiter that would run work
  std::atomic<uint64_t> last_wait_{0};           // the tail when a wait ended
  std::atomic<uint32_t> little_waits_{0};        // waits in a row after little work
  std::atomic<uint32_t> called_{0};              // what the worker naps on
  alignas(64) std::atomic<Entry *> entries_{nullptr};
  std::atomic<uint32_t> owner_{worker}; // of the head
  std::byte *payload_ = nullptr;
  std::atomic<bool> ended_{false};
  std::atomic<pid_t> consumer_{0}; // its thread, once it slept
};

} // namespace tb::drivers::cpu
