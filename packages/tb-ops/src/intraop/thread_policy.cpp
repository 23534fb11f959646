// Measures kernels, and sets the threads of OpenMP and MKL.
#include "intraop/thread_policy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "intraop/affinity.h"
#include "intraop/autotuner.h"

// The per-thread settings of the OpenMP and MKL that PyTorch carries. at::set_num_threads would also change MKL's
// process-wide count, and with it every other thread's.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int count);
extern "C" int MKL_Set_Num_Threads_Local(int count) __attribute__((weak)); // the lower-case name is Fortran's

#ifndef _OPENMP
#error "without the compiler's OpenMP at::parallel_for runs on one thread"
#endif

namespace tb::ops {
namespace {

// Nanoseconds on one thread from which on several threads are tried: for a kernel whose result depends on their number, in
// a graph, and for one whose result does not. With training steps on 2 processors 20 and 100 us are as good as the last.
constexpr int64_t long_kernel = 1'000'000, long_in_graph = 100'000, long_if_invariant = 50'000;
// The same for the last if the host waits for many kernels. It does not need the processor that such a kernel takes.
constexpr int64_t long_before_many = 10'000;
constexpr int many = 8;
// And on the waiting thread itself, where no third thread wants a processor.
constexpr int64_t long_on_waiting_thread = 10'000;
// Those from which on a kernel gets all threads while the host enqueues. The host needs some 2 us for a launch, so it will
// wait.
constexpr int64_t long_beside_host = 2'000'000;

// Amounts of data are classes by powers of 2. Kernels on fewer elements than the first are never long.
constexpr int first_power = 12, powers = 24;

int index_of(int64_t elements) {
  const int power = static_cast<int>(std::bit_width(static_cast<uint64_t>(elements))) - 1;
  return std::clamp(power - first_power, 0, powers - 1);
}

} // namespace

// The choice between one thread and several, by the amount of data.
struct IntraOpThreads::Timing {
  std::array<MeasuredChoice, powers> classes;
};

thread_local constinit IntraOpThreads intraop;

void IntraOpThreads::distinguish(const void *kernel) {
  static thread_local std::unordered_map<const void *, Timing> timings; // nodes stay where they are
  timing_ = &timings[kernel];
}

void IntraOpThreads::begin_kernel(const void *kernel, ThreadInvariance invariance, int threads,
                                  const tb_closure_context &context) {
  distinguish(kernel);
  context_ = &context;
  invariance_ = invariance;
  host_ = context.waiters == 0            ? HostActivity::enqueueing
          : context.waiters == UINT32_MAX ? HostActivity::none
                                          : HostActivity::blocked;
  all_ = threads;
  allowed_ = host_ == HostActivity::enqueueing ? std::max(1, threads - 1) : threads;
  if (host_ == HostActivity::enqueueing) displaced_ = true;
  least_part_ = host_ == HostActivity::none      ? least_in_graph
                : host_ == HostActivity::blocked ? least_while_waiting
                                                 : infinite;
  elements_ = started_ = 0;
  next_ = threads > 1 ? int64_t{1} << first_power : INT64_MAX;
  set(1);
}

void IntraOpThreads::use_fixed(int threads) {
  host_ = HostActivity::enqueueing;
  displaced_ = true;
  least_part_ = infinite;
  elements_ = started_ = 0;
  next_ = INT64_MAX;
  set(threads);
}

bool IntraOpThreads::many_follow() const {
  if (!context_->next) return false;
  void *storage = nullptr;
  for (int i = 0; i < many; i++)
    if (!context_->next(context_, &storage)) return false;
  return true;
}

int64_t IntraOpThreads::long_enough(int64_t time) const {
  if (invariance_ != ThreadInvariance::never && on_waiting_thread(*context_)) return long_on_waiting_thread;
  if (invariance_ == ThreadInvariance::never) return host_ == HostActivity::none ? long_in_graph : long_kernel;
  const bool undecided = time >= long_before_many && time < long_if_invariant;
  return undecided && host_ == HostActivity::blocked && many_follow() ? long_before_many : long_if_invariant;
}

void IntraOpThreads::reconsider() {
  if (!started_) started_ = autotuner_clock();
  const int index = index_of(elements_);
  const MeasuredChoice &choice = timing_->classes[index];
  const int64_t time = choice.baseline();
  const int threads = time >= long_beside_host ? all_ : allowed_;
  if (threads > 1 && choice.next(long_enough(time))) {
    next_ = INT64_MAX;
    return set(threads);
  }
  next_ = index + 1 < powers ? int64_t{1} << (first_power + index + 1) : INT64_MAX;
}

void IntraOpThreads::end_kernel() {
  next_ = INT64_MAX;
  if (!started_) return;
  MeasuredChoice &choice = timing_->classes[index_of(elements_)];
  const int64_t took = autotuner_clock() - started_;
  if (threads_ > 1 && took > choice.baseline()) displaced_ = true;
  choice.record(threads_ > 1, took);
}

void IntraOpThreads::set(int threads) {
  if (threads == threads_) return;
  threads_ = threads;
  omp_set_num_threads(threads);
  if (threads > 1) {
    place_new_threads(threads);
    if (displaced_) separate_threads(threads);
    displaced_ = false;
  }
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(threads);
}

IntraOpThreads::ThreadCountScope::ThreadCountScope(IntraOpThreads &policy, int threads)
    : policy_(policy), before_(policy.threads_), started_(autotuner_clock()) {
  policy.started_ = 0;
  policy.set(threads);
}

IntraOpThreads::ThreadCountScope::~ThreadCountScope() {
  if (policy_.threads_ > 1 && static_cast<double>(autotuner_clock() - started_) > policy_.expected_)
    policy_.displaced_ = true;
  policy_.expected_ = infinite;
  policy_.set(before_);
}

PartOfKernel::PartOfKernel() {
  if (at::get_thread_num() != 0) tensors_.emplace();
  if (MKL_Set_Num_Threads_Local) before_ = MKL_Set_Num_Threads_Local(1);
}

PartOfKernel::~PartOfKernel() {
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
}

ThreadCountsScope::ThreadCountsScope() : threads_(omp_get_max_threads()) {
  if (MKL_Set_Num_Threads_Local) blas_threads_ = MKL_Set_Num_Threads_Local(1);
}

ThreadCountsScope::~ThreadCountsScope() {
  intraop.threads_ = 0; // unknown
  intraop.next_ = INT64_MAX;
  omp_set_num_threads(threads_);
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(blas_threads_);
}

SequentialBlasScope::SequentialBlasScope() {
  if (!MKL_Set_Num_Threads_Local) return;
  before_ = MKL_Set_Num_Threads_Local(1);
  const int threads = at::get_num_threads();
  if (threads > 1)
    at::parallel_for(0, threads, 1, [](int64_t, int64_t) { MKL_Set_Num_Threads_Local(1); }); // one part each
}

SequentialBlasScope::~SequentialBlasScope() {
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
}

} // namespace tb::ops
