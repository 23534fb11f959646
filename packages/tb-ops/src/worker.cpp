// The worker's side of a launch: thread settings, the OpenMP team, exceptions.
#include "launch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "describe.h"
#include "team.h"

namespace tb {
namespace {

// What was thrown, and the tensors of the call: the caller is long past it.
void write(const tb_closure_context *context, const char *thrown) {
  if (!context->error_text || context->error_capacity == 0) return;
  const std::string tensors = describe_aliases();
  const std::string text = tensors.empty() ? thrown : c10::str(thrown, "\nThe operator's tensors: ", tensors);
  const size_t size = std::min<size_t>(text.size(), context->error_capacity - 1);
  std::memcpy(context->error_text, text.data(), size);
  context->error_text[size] = 0;
}

class Worker {
public:
  Worker() { at::init_num_threads(); } // PyTorch would do it inside the first kernel, undoing our choice

private:
  at::AutoDispatchBelowADInplaceOrView no_autograd_;
};

} // namespace

tb_status run_guarded(void (*call)(void *), void *storage, int32_t threads, const tb_closure_context *context) {
  static thread_local Worker worker;
  team.start(reinterpret_cast<const void *>(call), threads, context->waiters != 0);
  AliasScope aliases;
  try {
    call(storage);
    team.finish();
    return TB_OK;
  } catch (const c10::OutOfMemoryError &error) {
    write(context, error.what_without_backtrace());
    return TB_OUT_OF_MEMORY;
  } catch (const c10::IndexError &error) {
    write(context, error.what_without_backtrace());
    return TB_OUT_OF_RANGE;
  } catch (const c10::Error &error) {
    write(context, error.what_without_backtrace());
  } catch (const std::exception &error) {
    write(context, error.what());
  } catch (...) {
    write(context, "an exception of unknown type");
  }
  return TB_UNKNOWN;
}

} // namespace tb
