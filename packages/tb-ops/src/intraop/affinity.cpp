// Moves new threads by their affinity.
#include "intraop/affinity.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "intraop/parallel_for.h"

extern "C" int omp_get_num_procs();
extern "C" void omp_set_num_threads(int count);

namespace tb::ops {
namespace {

constexpr int most_members = 64;

// The threads of one thread's parallel regions, by thread number.
struct Members {
  std::atomic<uint64_t> present = 0; // a bit each
  std::array<std::atomic<pid_t>, most_members> ids{};
};

// Of an OpenMP thread: ends with it.
class Membership {
public:
  void begin(std::shared_ptr<Members> members, int number) {
    end();
    members_ = std::move(members);
    bit_ = uint64_t{1} << number;
    members_->ids[number] = static_cast<pid_t>(syscall(SYS_gettid));
    members_->present.fetch_or(bit_, std::memory_order_release);
  }
  ~Membership() { end(); }

private:
  void end() {
    if (!members_) return;
    members_->present.fetch_and(~bit_, std::memory_order_release);
    members_->ids[static_cast<size_t>(std::countr_zero(bit_))] = 0;
  }

  std::shared_ptr<Members> members_;
  uint64_t bit_ = 0;
};

thread_local Membership membership;

std::atomic<int64_t> starts = 0, threads_moved = 0;

// Makes a thread (0: the calling one) leave this processor. Where it may run later is left as it was.
bool leave(pid_t thread, int processor) {
  cpu_set_t before, others;
  if (sched_getaffinity(thread, sizeof before, &before) != 0) return false;
  others = before;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(thread, sizeof others, &others) != 0) return false;
  sched_setaffinity(thread, sizeof before, &before);
  return true;
}

std::shared_ptr<Members> &members_of_this_thread() {
  static thread_local auto members = std::make_shared<Members>();
  return members;
}

} // namespace

void place_new_threads(int threads) {
  const std::shared_ptr<Members> &members = members_of_this_thread();
  const int known = std::min(threads, most_members);
  const uint64_t all = (~uint64_t{0} >> (most_members - known)) & ~uint64_t{1}; // except the calling one
  if ((members->present.load(std::memory_order_acquire) & all) == all) return;
  starts++;
  const int here = sched_getcpu();
  // With more threads than processors the runtime's threads sleep while they wait, and so leave this one to the new.
  const bool one_more = threads >= omp_get_num_procs() && threads < most_members;
  omp_set_num_threads(threads + one_more);
  parallel_for(0, threads + one_more, 1, [&](int64_t, int64_t) {
    const int number = at::get_thread_num();
    if (number == 0 || number >= most_members) return;
    membership.begin(members, number);
    if (number < threads && sched_getcpu() == here && leave(0, here)) threads_moved++;
  });
  omp_set_num_threads(threads);
  if (one_more) { // which ends in the next region, if it began: here, and not beside the kernel
    parallel_for(0, threads, 1, [](int64_t, int64_t) {});
    constexpr int most_yields = 100; // other runtimes keep it
    const uint64_t last = uint64_t{1} << threads;
    for (int i = 0; i < most_yields && (members->present.load(std::memory_order_relaxed) & last); i++) sched_yield();
  }
  // A limit may keep some from being there; nothing waits for these.
  members->present.fetch_or(all, std::memory_order_relaxed);
}

void separate_threads(int threads) {
  constexpr int most_threads = 8;
  if (threads > most_threads) return;
  const Members &members = *members_of_this_thread();
  const uint64_t present = members.present.load(std::memory_order_acquire);
  const int here = sched_getcpu();
  for (int number = 1; number < threads; number++) {
    const pid_t id = members.ids[static_cast<size_t>(number)];
    if ((present >> number & 1) && id) leave(id, here);
  }
}

std::pair<int64_t, int64_t> thread_starts() { return {starts, threads_moved}; }

} // namespace tb::ops
