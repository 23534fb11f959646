// Asks tb-stream for the capture of a stream.
#include "runtime/capture.h"

namespace tb::ops {

bool in_capture(tb_stream *stream) {
  if (!any_capture()) return false;
  void *capture = nullptr;
  check(runtime.stream.capture_part(stream, nullptr, &capture), "capture_part", -1); // NULL: the capture itself
  return capture != nullptr;
}

} // namespace tb::ops
