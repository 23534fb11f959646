// Captures in progress: the streams that take part, and the nodes so far.
//
// A capture begins on one stream, its origin; a stream that waits for an event recorded in the capture joins it. The
// order is kept as one count per stream, so that the end can check that the origin waited for every stream that joined.
#pragma once

#include "graph/nodes.h"

namespace tb::opencl {

// The captures of a driver. Its functions may be called by any thread, with the driver's mutex held or not, and with no
// stream's.
class Captures {
public:
  explicit Captures(const tb_host *host) : host_(host) {}

  // Fail with a text.
  tb_status begin(tb_stream *stream);
  tb_status end(tb_stream *stream, std::shared_ptr<NodeList> *out);
  // Fails for a stream that captures: nothing waits for what does not run.
  tb_status check_wait(const tb_stream *stream) const;
  // False: the stream captures nothing, and the node is as it was.
  bool add(tb_stream *stream, Node &&node);
  // What an event that is recorded on the stream comes after. Its `capture` is null if the stream captures nothing.
  CapturedPoint point(const tb_stream *stream);
  // The stream waits for a record of a capture, and joins if it takes no part yet. Fails with a text.
  tb_status join(tb_stream *stream, const CapturedPoint &point);
  // Captured work waits for a record outside: each launch does. False: the stream captures nothing.
  bool add_prerequisite(tb_stream *stream, const Point &point);
  // The stream is destroyed. A capture that began on it is dropped.
  void leave(tb_stream *stream);

private:
  const tb_host *host_;
  std::mutex mutex_; // of all captures, and of the two members of streams
};

} // namespace tb::opencl
