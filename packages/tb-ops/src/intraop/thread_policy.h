// How many threads a kernel gets.
//
// More threads pay if the kernel is long; otherwise OpenMP's barriers cost more than they save. Some long kernels consist of
// many short parts, as recurrent layers do, and may lose by them too. So the time of a kernel is measured, on one thread and
// on several, by kernel and amount of data; a kernel that was never measured runs on one thread. While the host still
// enqueues work it needs a processor, so a kernel leaves it one, unless it takes so long that the host will wait for it. Once
// a thread waits, the kernel gets all of them, as in the launch of a graph. The length from which a kernel gets threads
// depends on its result: sums over threads differ in their last bits with the number of threads, and should differ from run
// to run only in kernels that take long.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "intraop/parallel_for.h"
#include "intraop/thread_invariant_ops.h"
#include "tb/driver.h"
#include "worker/worker_tensors.h"

namespace tb::ops {

// Whether a closure runs on a host thread that waits for it, with that thread's intra-op threads.
inline bool on_waiting_thread(const tb_closure_context &context) {
  return context.struct_size > offsetof(tb_closure_context, on_waiter) && context.on_waiter != 0;
}

// On a thread that runs a part of a kernel: no autograd, BLAS on this thread alone, worker tensors of its own.
class PartOfKernel {
public:
  PartOfKernel();
  ~PartOfKernel();
  PartOfKernel(const PartOfKernel &) = delete;
  PartOfKernel &operator=(const PartOfKernel &) = delete;

private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
  std::optional<WorkerTensorScope> tensors_; // those of the kernel's first thread live as long as the kernel
  int before_ = 0;                           // MKL's setting of this thread
};

class IntraOpThreads {
public:
  // Before a kernel, which is identified by an address. `threads`: the count of the thread that launched it.
  void begin_kernel(const void *kernel, ThreadInvariance invariance, int threads, const tb_closure_context &context);
  // The kernel that began shares its address with others; `kernel` identifies this one.
  void distinguish(const void *kernel);
  // The result of the current kernel depends on the number of threads with these arguments. Before the first
  // count_elements().
  void depend_on_thread_count() { invariance_ = ThreadInvariance::never; }
  // The kernel gets a tensor that is neither float32 nor of integers, or one of a single number that is no integer.
  void meet_other_dtype() {
    if (invariance_ != ThreadInvariance::any_dtype) depend_on_thread_count();
  }
  void meet_single_element() {
    if (invariance_ == ThreadInvariance::many_results) depend_on_thread_count();
  }
  // Before a kernel whose result must not depend on measured times: it always gets `threads`.
  void use_fixed(int threads);
  // The kernel gets a tensor of so many elements. Does nothing outside of a kernel, on any thread.
  void count_elements(int64_t elements) {
    if ((elements_ += elements) >= next_) [[unlikely]]
      reconsider();
  }
  void end_kernel();
  // The number of parts, at most `most`, into which to cut a kernel that takes one thread about `nanoseconds`. 1 while the
  // host needs a processor.
  int64_t parts(int64_t most, double nanoseconds) {
    expected_ = nanoseconds;
    double least = least_part_;
    if (host_ == HostActivity::blocked && nanoseconds < 2 * least && nanoseconds >= 2 * least_before_many &&
        many_follow())
      least = least_before_many;
    const auto worth = static_cast<int64_t>(nanoseconds / least);
    return std::max(int64_t{1}, std::min({int64_t{allowed_}, most, worth}));
  }
  // Calls part(i, parts) for each i below `parts`, each on a thread. A single part runs with the current threads.
  template <class Part> void share(int64_t parts, const Part &part) {
    if (parts <= 1) return part(int64_t{0}, int64_t{1});
    const ThreadCountScope scope(*this, static_cast<int>(parts));
    parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const PartOfKernel guard;
      for (int64_t i = first; i < last; i++) part(i, parts);
    });
  }
  // The active number.
  int threads() const { return threads_; }
  // The threads that a kernel which runs on one may have instead. 1 while the host needs a processor, if results must not
  // depend on measured times, and if the kernel has several threads already.
  int shareable() const { return least_part_ == infinite || threads_ > 1 ? 1 : allowed_; }
  // Runs the kernel, or a part of it, with so many threads.
  template <class Run> void on(int threads, const Run &run) {
    const ThreadCountScope scope(*this, threads);
    run();
  }
  // Runs a kernel whose result does not depend on the number of threads, and which takes one thread about `nanoseconds`, on
  // as many threads as are worth it.
  template <class Run> void run_invariant(double nanoseconds, const Run &run) {
    const int64_t threads = parts(INT64_MAX, nanoseconds);
    if (threads == 1) return run();
    on(static_cast<int>(threads), run);
  }
  // Calls loop(begin, end) over [0, count), each element of which takes one thread about `nanoseconds`: with the current
  // threads, as a kernel of PyTorch would, or in parts.
  template <class Loop> void loop(int64_t count, double nanoseconds, const Loop &loop) {
    constexpr int64_t line = 64; // elements: no two threads write to one cache line
    const int64_t parts = this->parts(count / line, nanoseconds * static_cast<double>(count));
    if (parts <= 1) return parallel_for(0, count, static_cast<int64_t>(long_loop / nanoseconds), loop);
    share(parts, [&](int64_t i, int64_t of) {
      loop(begin_of_part(i, of, count, line), begin_of_part(i + 1, of, count, line));
    });
  }

private:
  friend class ThreadCountsScope;
  static constexpr double long_loop = 10'000; // nanoseconds that are worth a thread
  // Nanoseconds that are worth a part. In a graph the threads were busy just now, still spin, and begin within some 2
  // microseconds. While the host waits they may have to be woken, and take the host's processor for a while after, which
  // matters less if it waits for many kernels.
  static constexpr double least_in_graph = 4000, least_while_waiting = 25'000, least_before_many = 5000;
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  // What the host does meanwhile. It has no part in the launch of a graph.
  enum class HostActivity { enqueueing, blocked, none };
  struct Timing; // of one kernel
  // While it lives the kernel has `threads`; the kernel's time is then not its time on one thread.
  class ThreadCountScope {
  public:
    ThreadCountScope(IntraOpThreads &policy, int threads);
    ~ThreadCountScope();
    ThreadCountScope(const ThreadCountScope &) = delete;
    ThreadCountScope &operator=(const ThreadCountScope &) = delete;

  private:
    IntraOpThreads &policy_;
    const int before_;
    const int64_t started_;
  };
  void reconsider();
  void set(int threads);
  // The nanoseconds on one thread from which on the current kernel gets several. `time`: those that it takes.
  int64_t long_enough(int64_t time) const;
  // Whether the host, which waits, will not go on before several more kernels have run.
  bool many_follow() const;

  Timing *timing_ = nullptr;
  const tb_closure_context *context_ = nullptr; // of the current kernel
  HostActivity host_ = HostActivity::none;
  ThreadInvariance invariance_ = ThreadInvariance::never;
  int64_t elements_ = 0;      // of the running kernel
  int64_t next_ = INT64_MAX;  // elements at which to reconsider
  int64_t started_ = 0;       // nanoseconds; 0: not measured
  int threads_ = 0;           // active
  int allowed_ = 1, all_ = 1; // for a long kernel; for one that the host would wait for
  bool displaced_ = true;     // another thread may have run where OpenMP's do
  double least_part_ = infinite;
  double expected_ = infinite; // nanoseconds that one thread would take for what was last cut into parts
};

extern thread_local constinit IntraOpThreads intraop;

// Gives the calling thread its counts of OpenMP and MKL threads back, after closures that it ran.
class ThreadCountsScope {
public:
  ThreadCountsScope();
  ~ThreadCountsScope();
  ThreadCountsScope(const ThreadCountsScope &) = delete;
  ThreadCountsScope &operator=(const ThreadCountsScope &) = delete;

private:
  const int threads_;
  int blas_threads_ = 0;
};

// While it lives, a GEMM inside a kernel's own parallel loop runs on the calling thread at once. MKL would start a parallel
// region of one thread for each, which takes as long as a small GEMM.
class SequentialBlasScope {
public:
  SequentialBlasScope();
  ~SequentialBlasScope();
  SequentialBlasScope(const SequentialBlasScope &) = delete;
  SequentialBlasScope &operator=(const SequentialBlasScope &) = delete;

private:
  int before_ = 0; // MKL's setting of the calling thread; the other threads need none outside of loops
};

} // namespace tb::ops
