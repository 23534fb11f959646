// Reserves, commits and consumes closures. closure_queue.h describes the protocol.
#include "drivers/cpu/stream/closure_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "drivers/common/futex.h"
#include "drivers/cpu/stream/openmp_pause.h"
#include "drivers/cpu/stream/wake_affinity.h"

namespace tb::drivers::cpu {

namespace {
constexpr auto seq_cst = std::memory_order_seq_cst;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr uint64_t payload_bytes = ClosureQueue::granule_count * ClosureQueue::granule_bytes;
constexpr uint64_t entry_bytes = ClosureQueue::granule_count * sizeof(ClosureQueue::Entry);
// Granules between two waits after which waiters may run work: about a dozen operators. With more, the worker runs the
// first of them while the others are queued.
constexpr uint64_t little_work = 128;

// Whether this thread may have OpenMP threads for closures that it ran.
thread_local bool has_run_work = false;

bool is_committed(uint32_t state) noexcept { return state != ClosureQueue::empty && state != ClosureQueue::sleeping; }

pid_t this_thread() noexcept {
  static thread_local const auto id = static_cast<pid_t>(syscall(SYS_gettid));
  return id;
}

// Takes a line from the other processor. The builtin asks for a mere copy unless the compiler may assume newer
// processors than x86-64's first; the first ones skip the instruction.
void fetch_to_write(const void *line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}
} // namespace

std::byte *ClosureQueue::map_memory() noexcept {
  void *memory = mmap(nullptr, payload_bytes + entry_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte *>(memory);
}

void ClosureQueue::unmap_memory(std::byte *memory) noexcept { munmap(memory, payload_bytes + entry_bytes); }

void ClosureQueue::use_memory(std::byte *memory) noexcept {
  payload_ = memory;
  // Fresh pages are zero, and zero is an empty entry: nothing is touched before it is used.
  static_assert(empty == 0);
  entries_.store(reinterpret_cast<Entry *>(memory + payload_bytes), release);
}

void ClosureQueue::release_memory() noexcept {
  if (!entries()) return;
  unmap_memory(payload_);
  entries_.store(nullptr, relaxed);
}

ClosureQueue::Entry &ClosureQueue::entry_of(const void *storage) const noexcept {
  return entries()[(static_cast<const std::byte *>(storage) - payload_) / granule_bytes];
}

bool ClosureQueue::owns(const void *storage) const noexcept {
  const uint64_t offset = reinterpret_cast<uintptr_t>(storage) - reinterpret_cast<uintptr_t>(payload_);
  return has_memory() && offset < payload_bytes && offset % granule_bytes == 0;
}

void *ClosureQueue::reserve(uint64_t size, bool may_wait, uint32_t spin, std::atomic<uint32_t> &sleepers,
                            uint64_t &end) noexcept {
  static_assert(gap_granules % 2 == 0);
  const uint64_t used = std::max<uint64_t>((size + granule_bytes - 1) / granule_bytes, 1);
  const uint64_t granules = (used + 1) / 2 * 2 + gap_granules; // lines come in pairs
  uint64_t tail = tail_.load(relaxed);
  for (;;) {
    const uint64_t offset = tail % granule_count;
    const uint64_t skip = offset + granules > granule_count ? granule_count - offset : 0;
    const uint64_t next = tail + skip + granules;
    // Signed: with a tail that other producers have left behind, the head may be ahead. Then the exchange fails.
    const auto full = [next](uint64_t head) {
      return static_cast<int64_t>(next - head) > static_cast<int64_t>(granule_count);
    };
    if (full(known_head_.load(acquire))) {
      const uint64_t head = head_.load(acquire);
      if (full(head)) {
        if (!may_wait) return nullptr;
        // Once asleep, sleep until a quarter is free: a wake-up per record would cost more than the work.
        const uint64_t strict = next - granule_count;
        wait_for_room(strict, std::max(strict, std::min(tail, strict + granule_count / 4)), spin, sleepers);
        tail = tail_.load(relaxed);
        continue;
      }
      known_head_.store(head,
                        release); // may step behind another producer's value, which costs a second look and no more
    }
    if (!tail_.compare_exchange_weak(tail, next, seq_cst, relaxed)) continue;
    if (skip) {
      Entry &entry = entries()[offset];
      entry.granules = static_cast<uint32_t>(skip);
      publish(entry, skipped);
    }
    const uint64_t start = (tail + skip) % granule_count;
    entries()[start].granules = static_cast<uint32_t>(granules);
    fetch_ahead(start + granules);
    end = next;
    return payload_ + start * granule_bytes;
  }
}

void ClosureQueue::fetch_ahead(uint64_t granule) const noexcept {
  if (granule + ahead > granule_count) return;
  for (uint64_t next = granule; next < granule + ahead; ++next) fetch_to_write(payload_ + next * granule_bytes);
  fetch_to_write(&entries()[granule]);
}

void ClosureQueue::wait_for_room(uint64_t strict, uint64_t relaxed_position, uint32_t spin,
                                 std::atomic<uint32_t> &sleepers) noexcept {
  for (uint32_t turn = 0; turn < spin; ++turn) {
    if (done(strict)) return;
    pause();
  }
  sleepers.fetch_add(1, relaxed);
  wait(relaxed_position, 0);
  sleepers.fetch_sub(1, relaxed);
}

void ClosureQueue::publish(Entry &entry, State state) noexcept {
  const pid_t consumer = consumer_.load(relaxed); // before: afterwards the queue may be gone
  if (owner_.load(relaxed) == nobody && tail_.load(relaxed) - last_wait_.load(relaxed) > little_work) [[unlikely]]
    call_worker();
  if (entry.state.exchange(state, seq_cst) != sleeping) [[likely]]
    return;
  const WakeAffinity elsewhere(consumer);
  futex_wake_one(entry.state);
}

void ClosureQueue::commit(void *storage, const tb_closure *closure) noexcept {
  Entry &entry = entry_of(storage);
  entry.closure = closure;
  publish(entry, ready);
}

void ClosureQueue::cancel(void *storage) noexcept { publish(entry_of(storage), cancelled); }

ClosureQueue::Entry *ClosureQueue::next(uint32_t spin) noexcept {
  bool rested = false;
  for (uint32_t turn = 0;;) {
    const uint64_t head = head_.load(relaxed); // which only a waiter moves meanwhile
    Entry &entry = entries()[head % granule_count];
    const uint32_t state = entry.state.load(acquire);
    const bool found = is_committed(state);
    if (should_release_head(entry, found)) [[unlikely]] {
      release_head();
      turn = spin; // it has been idle for longer
      continue;
    }
    if (found) return &entry;
    if (turn < spin) {
      const uint32_t end = turn + pauses_per_look;
      do pause();
      while (++turn < end && waiters_.load(relaxed) == 0);
      continue;
    }
    consumer_.store(this_thread(), relaxed);
    uint32_t expected = empty;
    if (state == empty && !entry.state.compare_exchange_strong(expected, sleeping, seq_cst)) continue;
    // After the mark, so that end() either sees the mark or is seen here.
    if (ended() && tail() == head) return nullptr;
    sleep(entry.state, sleeping, rested);
    WakeAffinity::wait_until_over(); // threads that this one starts meanwhile would inherit the restriction for good
  }
}

ClosureQueue::Entry *ClosureQueue::committed() const noexcept {
  Entry &entry = entries()[head_.load(relaxed) % granule_count];
  return is_committed(entry.state.load(acquire)) ? &entry : nullptr;
}

bool ClosureQueue::should_release_head(const Entry &entry, bool found) const noexcept {
  const uint32_t wish = wish_.load(relaxed);
  if (wish == none) [[likely]]
    return false;
  if (!found) return true;
  return wish == at_once && entry.state.load(relaxed) == ready && (entry.closure->flags & TB_CLOSURE_ON_WAITER);
}

void ClosureQueue::release_head() noexcept {
  // A record that stays for a whole nap has nobody who waits for it. So a program that queues work and waits no more has
  // it begun within two naps, 1 ms. Much shorter ones would end while the host still queues a dozen operators.
  constexpr timespec nap = {0, 500'000};
  constexpr int most_idle = 20; // naps: 10 ms
  wish_.store(none, relaxed);
  consumer_.store(this_thread(), relaxed);
  called_.store(0, relaxed);
  owner_.store(nobody, seq_cst);
  bool rested = false;
  for (int idle = 0;;) {
    const uint64_t head = head_.load(seq_cst), queued = tail();
    futex_wait_for(called_, 0, nap);
    WakeAffinity::wait_until_over();
    const bool moved = head_.load(seq_cst) != head, unbegun = !moved && queued != head;
    if (unbegun) little_waits_.store(0, relaxed);
    idle = moved ? 0 : idle + 1;
    const bool needed = called_.exchange(0, seq_cst) || unbegun || idle >= most_idle || ended();
    uint32_t expected = nobody; // a waiter that runs work now calls if it leaves some
    if (needed && owner_.compare_exchange_strong(expected, worker, seq_cst)) return;
    if (!std::exchange(rested, true)) pause_openmp();
  }
}

bool ClosureQueue::take_head(uint64_t position, uint32_t &spin) noexcept {
  constexpr uint32_t some = 4, patience = 128; // waits; pauses: shorter work ends sooner on the worker
  if (tail() - last_wait_.load(relaxed) > little_work) {
    little_waits_.store(0, relaxed);
    if (std::exchange(has_run_work, false)) pause_openmp();
    return false;
  }
  if (little_waits_.load(relaxed) < some) {
    little_waits_.fetch_add(1, relaxed);
    return false;
  }
  waiters_.fetch_add(1, relaxed);
  bool taken = false, wishes = false;
  for (uint32_t turn = 0; spin > 0 && !done(position); ++turn, --spin) {
    uint32_t expected = nobody;
    taken = owner_.load(relaxed) == nobody && owner_.compare_exchange_strong(expected, waiter, seq_cst);
    if (taken) break;
    if (turn == patience) {
      wishes = true;
      wish_.store(at_once, relaxed);
    }
    pause();
  }
  waiters_.fetch_sub(1, relaxed);
  has_run_work |= taken;
  // The waiter will sleep. The worker releases the head for the next wait, when nothing is left.
  if (!taken && wishes) wish_.store(when_idle, relaxed);
  return taken;
}

void ClosureQueue::return_head() noexcept {
  last_wait_.store(tail(), relaxed);
  if (!done(tail())) little_waits_.store(0, relaxed); // waiters may not run it, or it is another thread's
  owner_.store(nobody, seq_cst);
  // After the store above: who queued work and then waited for it has seen that it is nobody's, or is seen here.
  if (!done(tail())) call_worker();
}

void ClosureQueue::call_worker() noexcept {
  const pid_t consumer = consumer_.load(relaxed);
  if (called_.exchange(1, seq_cst) != 0) return;
  const WakeAffinity elsewhere(consumer);
  futex_wake_one(called_);
}

ClosureQueue::Entry *ClosureQueue::following(const Entry &entry) const noexcept {
  const uint64_t first = head_.load(relaxed) % granule_count;
  const Entry *last = &entry;
  for (;;) {
    const uint64_t granule = (last - entries() + last->granules) % granule_count;
    if (granule == first) return nullptr; // once around a full queue
    Entry &next = entries()[granule];
    const uint32_t state = next.state.load(acquire);
    if (state == ready) return &next;
    if (state != skipped && state != cancelled) return nullptr;
    last = &next;
  }
}

void ClosureQueue::sleep(std::atomic<uint32_t> &word, uint32_t expected, bool &rested) noexcept {
  constexpr timespec long_sleep = {0, 10'000'000};
  if (rested) return futex_wait(word, expected);
  if (futex_wait_for(word, expected, long_sleep)) return;
  rested = true;
  pause_openmp();
}

void ClosureQueue::finish(Entry &entry) noexcept {
  const uint64_t head = head_.load(relaxed) + entry.granules;
  entry.state.store(empty, relaxed); // seen by the next reserve of this granule through the head
  head_.store(head, seq_cst);
  if (head < wake_at_.load(seq_cst)) return;
  wake_at_.store(UINT64_MAX, seq_cst);
  woken_from_.store(sched_getcpu(), relaxed);
  // After the store above: a waiter whose mark it wiped out has read the old count, and does not fall asleep.
  wakes_.fetch_add(1, seq_cst);
  futex_wake_all(wakes_);
}

void ClosureQueue::wait(uint64_t position, uint32_t spin) noexcept {
  if (done(position)) return;
  waiters_.fetch_add(1, relaxed);
  expect_progress();
  wait_counted(position, spin);
  waiters_.fetch_sub(1, relaxed);
  last_wait_.store(tail(), relaxed);
}

void ClosureQueue::wait_counted(uint64_t position, uint32_t spin) noexcept {
  for (uint32_t turn = 0; turn < spin; ++turn) {
    if (done(position)) return;
    pause();
  }
  bool rested = false;
  while (!done(position)) {
    const uint32_t wakes = wakes_.load(seq_cst);
    uint64_t mark = wake_at_.load(seq_cst);
    while (position < mark && !wake_at_.compare_exchange_weak(mark, position, seq_cst)) {
    }
    if (done(position)) return; // the mark stays: one needless wake-up
    sleep(wakes_, wakes, rested);
    // The consumer looks for more work there.
    leave_processor(woken_from_.load(relaxed));
  }
}

void ClosureQueue::end() noexcept {
  ended_.store(true, seq_cst);
  if (!has_memory()) return;
  expect_progress();
  Entry &entry = entries()[head_.load(seq_cst) % granule_count];
  uint32_t expected = sleeping;
  if (entry.state.compare_exchange_strong(expected, empty, seq_cst)) futex_wake_one(entry.state);
}

} // namespace tb::drivers::cpu
