// capture.h -- work on its way: into a stream's queue, or into the graph that the stream captures.
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
  std::set<Stream *> streams; // the origin, and those that joined
};

struct Graph {
  std::vector<Node> nodes;
};

struct Executable {
  Context *context;
  std::shared_ptr<std::vector<Node>> nodes;
  Record last; // launches never overlap
};

// The streams capture no longer.
void end_capture(const std::shared_ptr<Capture> &capture);
// Queues or captures work; with the lock held.
CUresult submit(Stream &stream, Work kind, Operation operation);
// Queues what is never captured, after what legacy streams must wait for.
Record queue_operation(Stream &stream, Operation operation, bool kernel = false);
// A function that is not allowed while somebody captures so that it would notice (mode); refused, it ends the capture.
CUresult check_capture_mode(Context &context);

} // namespace simcuda
