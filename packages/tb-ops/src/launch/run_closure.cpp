// The worker's side of a launch: thread settings, the OpenMP team, exceptions.
#include "launch/launch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "runtime/format.h"
#include "runtime/late_warnings.h"
#include "tb/failures.h"
#include "intraop/thread_policy.h"

namespace tb {
namespace {

// What was thrown, the tensors of the call and its place in Python: the caller is long past it. The place comes first,
// since a long text is cut.
void write(const tb_closure_context *context, const Launcher &launcher, const char *thrown) {
  if (!context->error_text || context->error_capacity == 0) return;
  const std::string tensors = describe_aliases();
  const std::string text =
      c10::str(marked(launcher.caller), thrown, tensors.empty() ? "" : "\nThe operator's tensors: ", tensors);
  const size_t size = std::min<size_t>(text.size(), context->error_capacity - 1);
  std::memcpy(context->error_text, text.data(), size);
  context->error_text[size] = 0;
}

class Worker {
public:
  // PyTorch and our copy of its template would each set the thread's count inside the first kernel, undoing the team's.
  Worker() {
    at::get_num_threads();
    at::internal::lazy_init_num_threads();
  }

private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
};

} // namespace

void flush_denormals(bool flush, int threads) {
  at::globalContext().setFlushDenormal(flush);
  team.share(threads, [flush](int64_t, int64_t) { at::globalContext().setFlushDenormal(flush); });
}

tb_status run_guarded(void (*call)(void *), void *storage, bool independent, const Launcher &launcher,
                      const tb_closure_context *context) {
  static thread_local Worker worker;
  if (launcher.deterministic)
    team.fix(launcher.threads);
  else
    team.start(reinterpret_cast<const void *>(call), independent, launcher.threads,
               context->waiters == 0            ? Host::works
               : context->waiters == UINT32_MAX ? Host::absent
                                                : Host::waits);
  if (launcher.flushes_denormals != flushes_denormals()) [[unlikely]]
    flush_denormals(launcher.flushes_denormals, launcher.threads);
  AliasScope aliases;
  const WarningScope warnings(launcher.caller);
  try {
    call(storage);
    team.finish();
    return TB_OK;
  } catch (const c10::Error &error) {
    write(context, launcher, error.what_without_backtrace());
    return status_of(error);
  } catch (const std::bad_alloc &) {
    write(context, launcher, "out of host memory");
    return TB_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    write(context, launcher, error.what());
    return TB_FAILED_PRECONDITION; // which Python hears of as RuntimeError, as PyTorch translates these
  } catch (...) {
    write(context, launcher, "an exception of unknown type");
  }
  return TB_UNKNOWN;
}

} // namespace tb
