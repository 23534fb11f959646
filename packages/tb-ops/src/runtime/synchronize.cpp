// Waiting, and what is said about it.
#include "runtime/synchronize.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "random/philox_state.h"
#include "runtime/late_warnings.h"
#include "dispatch/fallback_stats.h"
#include "runtime/runtime.h"

namespace tb {
namespace {

std::atomic<SyncDebugMode> mode{SyncDebugMode::none};

// " at train.py:12"; on threads without Python, such as autograd's, nothing.
std::string place() {
  const std::string where = find_origin().where;
  return where.empty() ? "" : " at " + where;
}

[[noreturn]] void refuse(const char *operation, Wait wait) {
  const char *reason = wait == Wait::always         ? "it needs what the device computes on the host"
                       : wait == Wait::first_shapes ? "it meets these shapes for the first time"
                                                    : "it meets these types for the first time, or writes to a tensor "
                                                      "that overlaps itself";
  const char *remedy = wait == Wait::always ? "Take it out of the capture: read results after replay()"
                                            : "Run the same step a few times before the capture (warm-up)";
  C10_THROW_ERROR(Error,
                  c10::str(operation, place(),
                           " would wait for the device inside a capture, where nothing runs: ", reason, ". ", remedy));
}

[[gnu::noinline]] void tell(const char *operation, Wait wait) {
  const std::string text =
      c10::str(operation, place(), " waits for the device",
               wait == Wait::first_shapes ? ", since it meets these shapes for the first time" : "",
               " (torch.tb.set_sync_debug_mode)");
  TORCH_CHECK(mode != SyncDebugMode::error, text);
  TORCH_WARN(text);
}

} // namespace

void synchronize(c10::DeviceIndex device, const char *operation, Wait wait) {
  if (in_capture(current_stream(device))) [[unlikely]]
    refuse(operation, wait);
  if (mode.load(std::memory_order_relaxed) != SyncDebugMode::none && wait != Wait::first_types) [[unlikely]]
    tell(operation, wait);
  check(runtime.driver->stream_synchronize(runtime.self, current_stream(device)), "stream_synchronize", device,
        Failed::work);
  tell_warnings_or_throw();
}

void set_sync_debug_mode(SyncDebugMode wanted) { mode = wanted; }
SyncDebugMode sync_debug_mode() { return mode; }

void refuse_captured_copy(c10::DeviceIndex device) {
  TORCH_CHECK(
      !in_capture(current_stream(device)), "aten::copy_", place(),
      " copies from host memory that is not pinned, inside a capture: every launch would see the values of now. "
      "Copy before replay(), or from a pinned tensor with non_blocking=True, whose values each launch reads");
}

} // namespace tb
