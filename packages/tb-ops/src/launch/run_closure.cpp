// Thread settings, intra-op threads, exceptions.
#include "launch/run_closure.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "intraop/thread_policy.h"
#include "launch/waiting_thread.h"
#include "runtime/late_warnings.h"
#include "tb/failures.h"
#include "worker/worker_tensors.h"

namespace tb::ops {
namespace {

// Writes the call's place in Python, the exception and the tensors of the call: the caller is long past it. The place comes
// first, since a long text is cut.
void write(const tb_closure_context *context, const LaunchContext &launch_context, const char *thrown) {
  if (!context->error_text || context->error_capacity == 0) return;
  const std::string tensors = worker_tensors().describe();
  const std::string text = c10::str(encode_call_site(launch_context.site), thrown,
                                    tensors.empty() ? "" : "\nThe operator's tensors: ", tensors);
  const size_t size = std::min<size_t>(text.size(), context->error_capacity - 1);
  std::memcpy(context->error_text, text.data(), size);
  context->error_text[size] = 0;
}

// PyTorch and our copy of its template would each set the thread's OpenMP count inside the first kernel, and so undo what
// the thread policy has set.
struct InitializedThreadCounts {
  InitializedThreadCounts() {
    at::get_num_threads();
    at::internal::lazy_init_num_threads();
  }
};

// What the calling thread's intra-op threads do. A waiting thread's own setting may differ from theirs.
thread_local constinit bool intraop_threads_flush = false;

// Sets it for the calling thread and for its intra-op threads. Threads that start later inherit it.
void flush_denormals(bool flush, int threads) {
  intraop_threads_flush = flush;
  at::globalContext().setFlushDenormal(flush);
  intraop.share(threads, [flush](int64_t, int64_t) { at::globalContext().setFlushDenormal(flush); });
}

} // namespace

tb_status run_closure(void (*call)(void *), const void *kernel, void *storage, ThreadInvariance invariance,
                      const LaunchContext &launch_context, const tb_closure_context *context) {
  static thread_local const InitializedThreadCounts initialized;
  std::optional<WaitingThreadScope> waiting;
  if (on_waiting_thread(*context)) {
    waiting.emplace();
  } else {
    static thread_local const at::AutoDispatchBelowADInplaceOrView no_autograd;
  }
  if (launch_context.deterministic)
    intraop.use_fixed(launch_context.threads);
  else
    intraop.begin_kernel(kernel, invariance, launch_context.threads, *context);
  if (const bool flushes = launch_context.flushes_denormals;
      flushes != flushes_denormals() || flushes != intraop_threads_flush) [[unlikely]]
    flush_denormals(launch_context.flushes_denormals, launch_context.threads);
  WorkerTensorScope tensors;
  const WarningScope warnings(launch_context.site);
  try {
    call(storage);
    intraop.end_kernel();
    return TB_OK;
  } catch (const c10::Error &error) {
    write(context, launch_context, error.what_without_backtrace());
    return status_of(error);
  } catch (const std::bad_alloc &) {
    write(context, launch_context, "out of host memory");
    return TB_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    write(context, launch_context, error.what());
    return TB_FAILED_PRECONDITION; // which Python hears of as RuntimeError, as PyTorch translates these
  } catch (...) {
    write(context, launch_context, "an exception of unknown type");
  }
  return TB_UNKNOWN;
}

} // namespace tb::ops
