// trace.h -- a timeline of what the host queues, when it runs, and what the host waits for.
//
// While a timeline is recorded, functions of this file replace some entries of the process's driver table. They note
// the time and call the driver's. A closure gets a header in front of its storage, with its own kind and times; other
// work is put between two host calls in stream order. When no timeline is recorded, this costs nothing. After the first
// timeline closure_commit and closure_cancel stay replaced, for storage that was reserved while it was recorded.
#pragma once

#include <string>

#include "host.h"

namespace tb::stream {

// TB_FAILED_PRECONDITION if a timeline is being recorded already.
tb_status start_trace();
// Ends the timeline and returns it in the format of Chrome and Perfetto. Work that still runs is missing.
tb_status stop_trace(std::string *out);

// Records work that does not pass through the driver's table: what is queued on the stream between the constructor and
// the destructor. `name` must outlive the timeline.
class TracedWork {
public:
  TracedWork(tb_stream *stream, const char *name);
  ~TracedWork();
  TracedWork(const TracedWork &) = delete;

private:
  tb_stream *stream_;
  void *span_ = nullptr;
};

} // namespace tb::stream
