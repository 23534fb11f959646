// What streams and events see of a capture in progress. graph/graph_capture.h collects the work.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "drivers/cpu/stream/event.h"

namespace tb::drivers::cpu {

class Capture {
public:
  // How many captured steps of each stream come before a point.
  using Seen = std::map<const Stream *, uint64_t>;

  virtual ~Capture() = default;
  // False once the capture has ended; nothing was done then, and the stream's own queue takes the work.
  virtual bool reserve(Stream &stream, uint64_t size, void **out, tb_status *status) = 0;
  // False: the storage is no open reserve of this capture.
  virtual bool commit(const void *storage, const tb_closure *closure) = 0;
  virtual bool cancel(const void *storage) = 0;
  // What an event that is recorded on `stream` comes after. False once the capture has ended.
  virtual bool record(Stream &stream, Seen *out) = 0;
  // `stream` waits for a record of this capture, and joins if it takes no part yet.
  virtual tb_status join(Stream &stream, const Seen &seen) = 0;
  // Captured work waits for a record outside: each launch does. False once the capture has ended.
  virtual bool add_prerequisite(const Event::Point &point) = 0;
};

// What an event recorded on a capturing stream stands for.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Capture::Seen seen;
};

} // namespace tb::drivers::cpu
