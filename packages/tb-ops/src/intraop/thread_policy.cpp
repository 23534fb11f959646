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
extern "C" void omp_set_num_threads(int count);
extern "C" int MKL_Set_Num_Threads_Local(int count) __attribute__((weak)); // the lower-case name is Fortran's

#ifndef _OPENMP
#error "without the compiler's OpenMP at::parallel_for runs on one thread"
#endif

namespace tb::ops {
namespace {

// Nanoseconds on one thread from which on several threads are tried.
constexpr int64_t long_kernel = 1'000'000;
constexpr int64_t long_in_graph = 100'000;
// For thread-invariant kernels. With training steps on 2 processors 0.02 and 0.1 ms are as good.
constexpr int64_t long_if_invariant = 50'000;

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

void IntraOpThreads::begin_kernel(const void *kernel, bool thread_invariant, int threads, HostActivity host) {
  distinguish(kernel);
  allowed_ = host == HostActivity::enqueueing ? std::max(1, threads - 1) : threads;
  long_if_dependent_ = host == HostActivity::none ? long_in_graph : long_kernel;
  long_ = thread_invariant ? long_if_invariant : long_if_dependent_;
  least_part_ = host == HostActivity::none      ? least_in_graph
                : host == HostActivity::blocked ? least_while_waiting
                                                : infinite;
  elements_ = started_ = 0;
  next_ = threads > 1 ? int64_t{1} << first_power : INT64_MAX;
  set(1);
}

void IntraOpThreads::use_fixed(int threads) {
  least_part_ = infinite;
  elements_ = started_ = 0;
  next_ = INT64_MAX;
  set(threads);
}

void IntraOpThreads::reconsider() {
  if (!started_) started_ = autotuner_clock();
  const int index = index_of(elements_);
  if (allowed_ > 1 && timing_->classes[index].next(long_)) {
    next_ = INT64_MAX;
    return set(allowed_);
  }
  next_ = index + 1 < powers ? int64_t{1} << (first_power + index + 1) : INT64_MAX;
}

void IntraOpThreads::end_kernel() {
  next_ = INT64_MAX;
  if (!started_) return;
  timing_->classes[index_of(elements_)].record(threads_ > 1, autotuner_clock() - started_);
}

void IntraOpThreads::set(int threads) {
  if (threads == threads_) return;
  threads_ = threads;
  omp_set_num_threads(threads);
  if (threads > 1) place_new_threads(threads);
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(threads);
}

IntraOpThreads::ThreadCountScope::ThreadCountScope(IntraOpThreads &policy, int threads)
    : policy_(policy), before_(policy.threads_) {
  policy.started_ = 0;
  policy.set(threads);
}

PartOfKernel::PartOfKernel() {
  if (at::get_thread_num() != 0) tensors_.emplace();
  if (MKL_Set_Num_Threads_Local) before_ = MKL_Set_Num_Threads_Local(1);
}

PartOfKernel::~PartOfKernel() {
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
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
