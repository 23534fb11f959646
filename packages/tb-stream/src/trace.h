// trace.h -- a timeline: what the host queues, when it runs, and who waits.
//
// While it is on, some functions of the process's driver table are ours, which note the time and go on to the driver's.
// A closure gets a room in front of its storage, where its own kind and times are kept; other work is put between two
// calls of the host in stream order. Off, it costs nothing; closure_commit and closure_cancel stay ours after the first
// time, for storage that was reserved while it was on.
#pragma once

#include <string>

#include "host.h"

namespace tb {

// TB_FAILED_PRECONDITION when it is on already.
tb_status start_trace();
// The timeline in the format of Chrome and Perfetto. Work that still runs is missing.
tb_status stop_trace(std::string *out);

// Work that the driver's table does not show: from the constructor to the destructor, on the stream.
class TracedWork {
public:
  TracedWork(tb_stream *stream, const char *name); // the name is kept
  ~TracedWork();
  TracedWork(const TracedWork &) = delete;

private:
  tb_stream *stream_;
  void *span_ = nullptr;
};

} // namespace tb
