// trace_text.h -- a timeline as Chrome's and Perfetto's JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tb/driver.h"

namespace tb {

// Times are nanoseconds of the steady clock.
struct TraceRecord {
  enum class Kind { launch, run, wait };
  Kind kind;
  const char *name;
  tb_stream *stream; // NULL: none
  int32_t thread;
  uint64_t number; // joins a launch and its run; 0: none
  int64_t begin, end;
};

// Threads of the host are rows of one process, streams of a device those of another.
std::string trace_text(const std::vector<TraceRecord> &records, int64_t start);

} // namespace tb
