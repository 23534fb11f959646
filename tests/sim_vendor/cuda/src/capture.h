// capture.h -- submits work to a stream's queue, or to the graph that the stream captures.
#pragma once

#include "world.h"

namespace simcuda {

enum class Work { kernel, copy, set, host, child };

struct Node {
  Work kind;
  Operation run;
  std::set<size_t> after;
};

struct Capture {
  Context *context;
  Stream *origin;
  int mode;
  std::thread::id thread;
  bool invalidated = false;
  std::vector<Node> nodes;
  std::set<Stream *> streams; // the origin, and the streams that joined
};

struct Graph {
  std::vector<Node> nodes;
};

struct Executable {
  Context *context;
  std::shared_ptr<std::vector<Node>> nodes;
  Record last; // the last launch, for which the next one waits
};

// Ends the capture of all its streams.
void end_capture(const std::shared_ptr<Capture> &capture);
// Queues or captures work. The caller holds the lock.
CUresult submit(Stream &stream, Work kind, Operation operation);
// Queues work that is never captured, after the work that the legacy stream's rules make it wait for.
Record queue_operation(Stream &stream, Operation operation, bool kernel = false);
// Called by functions that a capture's mode forbids. If there is such a capture, this fails and invalidates it.
CUresult check_capture_mode(Context &context);

} // namespace simcuda
