// trace.h -- a recorded sequence of allocations, as text and as the replay loop reads it.
//
// One event per line:  a ID BYTES STREAM   f ID   r ID STREAM (record_stream)   # text (a mark, ignored)
// ID and STREAM are numbers; an ID may be used again after its f. A last column T, the thread, may follow each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tb::allocator {

struct TraceEvent {
  enum Kind : uint8_t { allocate, free, record };
  Kind kind;
  uint32_t slot;   // of the block, used again after its free
  uint32_t stream; // of allocate and record
  uint64_t bytes;  // of allocate
};

struct Trace {
  std::vector<TraceEvent> events;
  uint32_t slots = 0, streams = 0;
  uint64_t peak_live = 0; // bytes as asked
};

// Throws std::invalid_argument with the number of the line and what is wrong with it.
Trace parse_trace(std::string_view text);

} // namespace tb::allocator
