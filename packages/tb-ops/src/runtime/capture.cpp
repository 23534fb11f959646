// Asks tb-stream for the capture of a stream.
#include "runtime/capture.h"

namespace tb::ops {

bool in_capture(tb_stream *stream) {
  if (!any_capture()) return false;
  void *capture = nullptr;
  check(runtime.stream.capture_part(stream, nullptr, &capture), "capture_part", -1); // NULL: the capture itself
  return capture != nullptr;
}

bool captures_after_interruption(tb_stream *stream, const std::string &reason) {
  int32_t captures = 0;
  check(runtime.stream.capture_interrupt(stream, reason.c_str(), &captures), "capture_interrupt", -1, Failed::work);
  return captures != 0;
}

} // namespace tb::ops
