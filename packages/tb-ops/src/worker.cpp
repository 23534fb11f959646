// The worker's side of a launch: thread settings, the OpenMP team, exceptions.
#include "launch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "describe.h"
#include "tb/failures.h"

// The per-thread settings of the OpenMP and MKL that PyTorch carries. at::set_num_threads would also change MKL's
// process-wide count, and with it every other thread's.
extern "C" void omp_set_num_threads(int count);
extern "C" int MKL_Set_Num_Threads_Local(int count) __attribute__((weak)); // the lower-case name is Fortran's

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
  Worker() { at::init_num_threads(); } // PyTorch would do it inside the first kernel, undoing our choice

  // While the host still produces work it needs a core itself; once a thread waits, the team takes it.
  void choose_team(int threads, bool host_waits) {
    const int team = host_waits ? threads : std::max(1, threads - 1);
    if (team == team_) return;
    team_ = team;
    omp_set_num_threads(team);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(team);
  }

private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
  int team_ = 0;
};

} // namespace

tb_status run_guarded(void (*call)(void *), void *storage, const Launcher &launcher,
                      const tb_closure_context *context) {
  static thread_local Worker worker;
  worker.choose_team(launcher.threads, context->waiters != 0);
  AliasScope aliases;
  try {
    call(storage);
    return TB_OK;
  } catch (const c10::Error &error) {
    write(context, launcher, error.what_without_backtrace());
    return status_of(error);
  } catch (const std::exception &error) {
    write(context, launcher, error.what());
  } catch (...) {
    write(context, launcher, "an exception of unknown type");
  }
  return TB_UNKNOWN;
}

} // namespace tb
