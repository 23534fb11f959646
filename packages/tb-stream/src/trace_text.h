// trace_text.h -- a timeline as Chrome's and Perfetto's JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tb/driver.h"

namespace tb::stream {

// An interval of the timeline. Times are nanoseconds of the steady clock.
struct TraceRecord {
  enum class Kind { launch, run, wait };
  Kind kind;
  const char *name;
  tb_stream *stream; // NULL if there is none
  int32_t thread;
  uint64_t number; // equal for a launch and its run; 0 if there is no such pair
  int64_t begin, end;
};

// The timeline as JSON. Threads of the host are the rows of one process, and streams of each device those of another.
std::string trace_text(const std::vector<TraceRecord> &records, int64_t start);

} // namespace tb::stream
