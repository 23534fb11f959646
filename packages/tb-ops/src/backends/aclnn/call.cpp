// Runs the second phase with its workspace, and composes the error messages.
#include "backends/aclnn/call.h"

#include "launch/launch_blocking.h"
#include "runtime/runtime.h"
#include "runtime/synchronize.h"
#include "tb/failures.h"

namespace tb::ops::aclnn {
namespace {

struct Meaning {
  Status code;
  tb_status status;
  const char *text;
};
constexpr Meaning meanings[] = {
    {161001, TB_FAILED_PRECONDITION, "a parameter is NULL"},
    {161002, TB_FAILED_PRECONDITION, "a parameter's type, shape or value is not supported"},
    {361001, TB_INTERNAL, "the runtime below failed"},
    {561000, TB_INTERNAL, "an inner error"},
    {561003, TB_UNSUPPORTED, "no kernel for these arguments"},
    {561101, TB_INTERNAL, "no executor could be made"},
    {561103, TB_INTERNAL, "an inner NULL"},
    {561107, TB_FAILED_PRECONDITION, "the operators' folder was not found: is ASCEND_OPP_PATH set?"},
    {561112, TB_FAILED_PRECONDITION, "the operators' kernels are not installed"},
    {207000, TB_UNSUPPORTED, "not supported"},
    {200006, TB_UNSUPPORTED, "not supported"},
    {207001, TB_OUT_OF_MEMORY, "out of device memory"},
    {207018, TB_OUT_OF_MEMORY, "out of device memory"},
};

Meaning meaning_of(Status code) {
  for (const Meaning &meaning : meanings)
    if (meaning.code == code) return meaning;
  return {code, TB_INTERNAL, "an error of the library"};
}

void *native_stream(c10::DeviceIndex device) {
  uint64_t native = 0;
  check(runtime.driver->stream_native(runtime.self, current_stream(device), &native), "stream_native", device);
  return reinterpret_cast<void *>(static_cast<uintptr_t>(native));
}

// Destroys the executor of a planned call that is not queued. It would leak otherwise. The library allows this only for
// repeatable executors.
void give_up(native::Executor *executor) {
  const Library &l = library();
  if (l.repeats() && l.set_repeatable(executor) == 0) l.destroy_executor(executor);
}

} // namespace

Function::Function(const char *name)
    : name(name), plan(find("aclnn" + std::string(name) + "GetWorkspaceSize")),
      start(find("aclnn" + std::string(name))) {}

void tell(std::string &text, const at::Tensor &tensor) { text += (text.empty() ? "" : ", ") + describe(tensor); }

Call::Call(const char *operation, const Function &function, c10::DeviceIndex device)
    : operation_(operation), function_(function), device_(device), stream_(native_stream(device)) {
  // The library works on the active device of the calling thread, and a thread such as autograd's may have none.
  check(runtime.driver->device_activate(runtime.self, device), "device_activate", device);
}

Status Call::queue(native::Executor *executor, uint64_t workspace) const {
  using Start = Status (*)(void *, uint64_t, native::Executor *, void *);
  const auto start = reinterpret_cast<Start>(function_.start);
  if (workspace == 0) return start(nullptr, 0, executor, stream_);
  DeviceScope scope(device_);
  // The memory is freed when this function returns. The free is stream-ordered, so the queued work can still use the
  // memory.
  const c10::DataPtr memory = runtime.allocator->allocate(workspace);
  return start(memory.get(), workspace, executor, stream_);
}

void Call::finish() const {
  if (launch_blocking()) synchronize(device_, operation_);
}

bool Call::again(const Key &key) {
  if (!key.repeatable() || !library().repeats() || !executor_cache().keeps()) return false;
  std::optional<Repeatable> known = executor_cache().take(key.text());
  if (!known || !known->move_to(key.storages())) return false;
  if (const Status status = queue(known->executor(), known->workspace())) fail("", status, "");
  executor_cache().put(key.text(), std::move(*known));
  finish();
  return true;
}

void Call::start(const Key &key, native::Executor *executor, uint64_t workspace, Descriptions descriptions) {
  const Library &l = library();
  // The library refuses to repeat some operators; they are planned at each call.
  if (key.repeatable() && l.repeats() && executor_cache().keeps() && l.set_repeatable(executor) == 0) {
    Repeatable repeatable(executor, workspace, std::move(descriptions));
    if (const Status status = queue(executor, workspace)) fail("", status, "");
    executor_cache().put(key.text(), std::move(repeatable));
    return finish();
  }
  Status status = 0;
  try {
    status = queue(executor, workspace);
  } catch (...) { // no memory for the workspace
    give_up(executor);
    throw;
  }
  if (status) fail("", status, "");
  finish();
}

void Call::fail(const char *phase, Status status, const std::string &arguments) const {
  const char *said = library().recent_message ? library().recent_message() : nullptr;
  const Meaning meaning = meaning_of(status);
  const std::string text = c10::str(operation_, " on tb:", static_cast<int>(device_), ": aclnn", function_.name, phase,
                                    arguments.empty() ? "" : " for " + arguments, " failed with ", status, ": ",
                                    meaning.text, said && *said ? std::string(" (") + said + ")" : "",
                                    ". To go on, let the CPU compute it: TB_FORCE_FALLBACK=", operation_);
  throw_failure(meaning.status, operation_, text.c_str(), Failed::work);
}

} // namespace tb::ops::aclnn
