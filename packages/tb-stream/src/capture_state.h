// capture_state.h -- the captures of the process, for the files that begin, end and interrupt them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host.h"
#include "tb/graph.h"
#include "waiting_mutex.h"

namespace tb::stream {

struct Graphs {
  Driver driver;
  tb_graph_api api{};
};

// The work of one capture. After capture_update() two captures share it.
struct Work {
  ~Work();

  int32_t device = -1;
  tb_stream *stream = nullptr; // the one that began
  uint64_t pool = 0;
  tb_graph *graph = nullptr;
  std::vector<std::pair<const tb_capture_part *, void *>> parts;
  WaitingMutex launching; // keeps what the parts queue and the launch itself together
  // The last launch. A launch on another stream waits for it, since both use the same memory.
  tb_stream *last_stream = nullptr;
  tb_event *last = nullptr;
};

enum class Stage { capturing, dropped, captured };

// What a capture that may be interrupted has besides.
struct Interruptible {
  WaitingMutex mutex; // guards `reason` and `events`, and is held while the capture ends and its work is launched
  void (*interrupted)(void *user) = nullptr;
  void *user = nullptr;
  std::atomic<bool> done = false; // the capture ends, or has ended; nothing is added to `events` any more
  std::string reason;             // "" if nothing interrupted it
  std::vector<tb_event *> events; // recorded in the capture, in the order of their last records
};

} // namespace tb::stream

struct tb_capture {
  tb::stream::Stage stage = tb::stream::Stage::capturing;
  std::shared_ptr<tb::stream::Work> work;
  std::set<tb_stream *> joined; // further streams that take part, as far as they were noticed
  std::atomic<tb_graph_exec *> executable = nullptr;
  std::unique_ptr<tb::stream::Interruptible> interruptible; // NULL: what it cannot hold is refused
};

namespace tb::stream {

// Never destroyed: captures may outlive the static destructors.
struct CaptureState {
  WaitingMutex mutex; // guards the lists; while it is held, no part and no waiting function of the driver is called
  std::vector<const tb_capture_part *> parts;
  std::vector<tb_capture *> active;
  std::set<tb_capture *> all;
  std::set<tb_stream *> stuck; // streams of dropped captures that the driver failed to end
  std::atomic<uint64_t> pools{0};
  std::atomic<bool> ended{false};
  bool watching = false;
};
CaptureState &capture_state();

} // namespace tb::stream
