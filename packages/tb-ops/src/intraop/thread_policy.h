// The OpenMP team that a worker gives to a kernel.
//
// A team pays where the kernel is long: else its barriers cost more than they save. Some long ones are made of many
// short parts, as recurrent layers are, and may lose by it too. How long a kernel takes is measured, on one thread and
// with a team, by kernel and amount of data; what was never measured runs on one thread. While the host still produces
// work it needs a processor itself, so that the team leaves it one; once a thread waits, the team takes them all, as in
// a graph's launch. How long is long enough depends on the results: where sums over threads differ in their last bits
// with the number of threads, they are to differ from run to run only in what takes a while.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "launch/tensor_descriptor.h"

namespace tb {

// What the host does meanwhile: it queues work, it waits, or it has no part in the work, which is a graph's.
enum class Host { works, waits, absent };

// ThreadSanitizer does not see how OpenMP's threads wait for each other: it is told.
class Barrier {
public:
#ifdef __SANITIZE_THREAD__
  void pass() { __tsan_acquire(this); }
  void reach() { __tsan_release(this); }
#else
  void pass() {}
  void reach() {}
#endif
};

// at::parallel_for on the threads that the team set.
template <class Loop> void parallel_for(int64_t begin, int64_t end, int64_t grain, const Loop &loop) {
  Barrier fork, join;
  fork.reach();
  at::parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    fork.pass();
    loop(first, last);
    join.reach();
  });
  join.pass();
}

// Where part i of `parts` begins, of `count` cut at multiples of `multiple`: 0 for the first, count for the one past the last.
inline int64_t begin_of_part(int64_t i, int64_t parts, int64_t count, int64_t multiple) {
  return i == parts ? count : count / multiple * i / parts * multiple;
}

// On a thread that runs part of a kernel: no autograd, products on this thread alone, aliases of its own.
class PartOfKernel {
public:
  PartOfKernel();
  ~PartOfKernel();
  PartOfKernel(const PartOfKernel &) = delete;
  PartOfKernel &operator=(const PartOfKernel &) = delete;

private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
  std::optional<AliasScope> aliases_; // those of the kernel's first thread live as long as the kernel
  int before_ = 0;                    // MKL's setting of this thread
};

class Team {
public:
  // Before a kernel, which is known by an address of its own. `independent`: its bits do not depend on the team;
  // `threads`: of the thread that launched it.
  void start(const void *kernel, bool independent, int threads, Host host);
  // What was started is one of many kernels with a common address: this one.
  void distinguish(const void *kernel);
  // Of an independent kernel, for these arguments: its bits depend on the team after all. Before its tensors.
  void depend() { long_ = long_if_dependent_; }
  // Before a kernel whose result must not depend on time: sums over threads differ in the last bits with their number.
  void fix(int threads);
  // The kernel gets a tensor of so many elements. Outside of a kernel, on any thread, it does nothing.
  void add(int64_t elements) {
    if ((elements_ += elements) >= next_) [[unlikely]]
      look();
  }
  void finish();
  // Into how many parts a kernel that takes one thread about `nanoseconds` is cut, at most `most`: 1 while the host needs a
  // processor.
  int64_t parts(int64_t most, double nanoseconds) const {
    const auto worth = static_cast<int64_t>(nanoseconds / least_part_);
    return std::max(int64_t{1}, std::min({int64_t{allowed_}, most, worth}));
  }
  // part(i, parts) for each i below `parts`, on as many of the team's threads. One part runs with the team as it is.
  template <class Part> void share(int64_t parts, const Part &part) {
    if (parts <= 1) return part(int64_t{0}, int64_t{1});
    const Shared shared(*this, static_cast<int>(parts));
    parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const PartOfKernel guard;
      for (int64_t i = first; i < last; i++) part(i, parts);
    });
  }
  // That are in force.
  int threads() const { return threads_; }
  // The threads that a kernel on one thread may have instead of it: 1 while the host needs a processor, where results
  // must not depend on time, and where the team was given already.
  int shareable() const { return least_part_ == none || threads_ > 1 ? 1 : allowed_; }
  // The kernel, or a part of it, with a team of so many threads.
  template <class Run> void on(int threads, const Run &run) {
    const Shared shared(*this, threads);
    run();
  }
  // A kernel with the same bits on any number of threads, which takes one thread about `nanoseconds`: on as many as are
  // worth it.
  template <class Run> void independent(double nanoseconds, const Run &run) {
    const int64_t threads = parts(INT64_MAX, nanoseconds);
    if (threads == 1) return run();
    on(static_cast<int>(threads), run);
  }
  // loop(begin, end) over [0, count), each element of which takes one thread about `nanoseconds`: on the team, as a
  // kernel of PyTorch's would be, or in parts.
  template <class Loop> void loop(int64_t count, double nanoseconds, const Loop &loop) {
    constexpr int64_t line = 64; // elements: no two threads write to one line of a cache
    const int64_t parts = this->parts(count / line, nanoseconds * static_cast<double>(count));
    if (parts <= 1) return parallel_for(0, count, static_cast<int64_t>(long_loop / nanoseconds), loop);
    share(parts, [&](int64_t i, int64_t of) {
      loop(begin_of_part(i, of, count, line), begin_of_part(i + 1, of, count, line));
    });
  }

private:
  static constexpr double long_loop = 10'000; // nanoseconds that are worth a thread of a team
  // Nanoseconds that are worth a part. In a graph a team that was busy just now still looks for work, and begins in some 2
  // microseconds; while the host waits it may have to be woken, and takes the host's processor for a while after.
  static constexpr double least_in_graph = 4000, least_while_waiting = 25'000;
  static constexpr double none = std::numeric_limits<double>::infinity();

  struct Timing; // of one kernel
  // While it lives the team has `threads`; how long the kernel takes tells nothing of its time on one thread.
  class Shared {
  public:
    Shared(Team &team, int threads);
    ~Shared() { team_.set(before_); }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

  private:
    Team &team_;
    const int before_;
  };
  void look();
  void set(int threads);

  Timing *timing_ = nullptr;
  int64_t elements_ = 0;          // of the running kernel
  int64_t next_ = INT64_MAX;      // elements at which to look again
  int64_t long_ = INT64_MAX;      // nanoseconds on one thread from which on a kernel gets a team
  int64_t started_ = 0;           // nanoseconds; 0: not measured
  int threads_ = 0, allowed_ = 1; // in force; for a long kernel
  int64_t long_if_dependent_ = INT64_MAX;
  double least_part_ = none;
};

extern thread_local constinit Team team;

// While it lives, a matrix product inside a kernel's own parallel loop runs on the thread that asks for it, at once.
// MKL would give each a parallel region of one thread first, which takes as long as a small product.
class ProductsInLoops {
public:
  ProductsInLoops();
  ~ProductsInLoops();
  ProductsInLoops(const ProductsInLoops &) = delete;
  ProductsInLoops &operator=(const ProductsInLoops &) = delete;

private:
  int before_ = 0; // MKL's setting of the calling thread; its team's threads need none outside of loops
};

} // namespace tb
