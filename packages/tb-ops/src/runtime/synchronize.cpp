// Waits, their reports, and what becomes of captures.
#include "runtime/synchronize.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "runtime/call_site.h"
#include "runtime/capture.h"
#include "runtime/late_warning_report.h"
#include "runtime/runtime.h"

namespace tb::ops {
namespace {

std::atomic<SyncDebugMode> mode{SyncDebugMode::none};

// " at train.py:12"; on threads without Python, such as autograd's, nothing.
std::string place() {
  const std::string where = find_origin().where;
  return where.empty() ? "" : " at " + where;
}

// In a capture nothing has run that could be waited for: the capture ends, or the wait is refused.
[[gnu::noinline]] void leave_capture(tb_stream *stream, const char *operation, SyncReason why) {
  const char *reason = why == SyncReason::data_dependent ? "it needs what the device computes on the host"
                       : why == SyncReason::first_shape
                           ? "it meets these shapes for the first time"
                           : "it meets these types for the first time, or writes to a tensor "
                             "that overlaps itself";
  const char *remedy = why == SyncReason::data_dependent ? "Take it out of the capture: read results after replay()"
                                                         : "Run the same step a few times before the capture (warm-up)";
  const std::string what =
      c10::str(operation, place(), " would wait for the device inside a capture, where nothing runs: ", reason);
  if (captures_after_interruption(stream, what)) C10_THROW_ERROR(Error, c10::str(what, ". ", remedy));
}

[[gnu::noinline]] void report(const char *operation, SyncReason why) {
  const std::string text =
      c10::str(operation, place(), " waits for the device",
               why == SyncReason::first_shape ? ", since it meets these shapes for the first time" : "",
               " (torch.tb.set_sync_debug_mode)");
  TORCH_CHECK(mode != SyncDebugMode::error, text);
  TORCH_WARN(text);
}

} // namespace

void announce_wait(c10::DeviceIndex device, const char *operation, SyncReason why) {
  if (in_capture(current_stream(device))) [[unlikely]]
    leave_capture(current_stream(device), operation, why);
  if (mode.load(std::memory_order_relaxed) != SyncDebugMode::none && why != SyncReason::first_dtype) [[unlikely]]
    report(operation, why);
}

void synchronize(c10::DeviceIndex device, const char *operation, SyncReason why) {
  announce_wait(device, operation, why);
  wait_announced(device);
}

void wait_announced(c10::DeviceIndex device) {
  check(runtime.driver->stream_synchronize(runtime.self, current_stream(device)), "stream_synchronize", device,
        Failed::work);
  report_warnings_or_throw();
}

void set_sync_debug_mode(SyncDebugMode wanted) { mode = wanted; }
SyncDebugMode sync_debug_mode() { return mode; }

void refuse_captured_copy(c10::DeviceIndex device) {
  tb_stream *stream = current_stream(device);
  if (!in_capture(stream)) return;
  const std::string what = c10::str("aten::copy_", place(),
                                    " copies from host memory that is not pinned, inside a "
                                    "capture: every launch would see the values of now");
  TORCH_CHECK(!captures_after_interruption(stream, what), what,
              ". Copy before replay(), or from a pinned tensor with "
              "non_blocking=True, whose values each launch reads");
}

} // namespace tb::ops
