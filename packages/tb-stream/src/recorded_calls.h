// recorded_calls.h -- the functions of the driver's table that note what they are called for.
//
// While there is a recording they are in the process's table, in place of the driver's, which they call. A closure gets a
// header in front of its storage and a kind of its own; other work is put between two host calls in stream order. While
// there is a capture, those of closures are there too, so that a captured closure can be recorded whenever it is
// replayed; without a recording, that costs a few nanoseconds a replayed closure. While a capture can be interrupted, the
// functions of interrupting_calls.cpp replace those that wait. Otherwise the table is the driver's.
#pragma once

#include "host.h"

namespace tb::stream {

// Opens the driver, unless it is open. Each of the other functions may be called after it succeeded once.
tb_status find_table();

// TB_FAILED_PRECONDITION: the process is ending.
tb_status observe_calls(bool on);
// From the first captured call to the last one of a capture.
void observe_capture(bool on);
// From capture_allow_interruption to the end of the capture.
void observe_interruptible(bool on);

// Records a launch of a graph: what is queued on the stream between the constructor and the destructor.
class RecordedLaunch {
public:
  explicit RecordedLaunch(tb_stream *stream);
  ~RecordedLaunch();
  RecordedLaunch(const RecordedLaunch &) = delete;

private:
  tb_record call_{};
  tb_record *span_ = nullptr;
};

} // namespace tb::stream
