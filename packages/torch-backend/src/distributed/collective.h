// collective.h -- one call of a process group on its way: queued on a stream, handed to the engine, done.
//
// The engine (gloo) works on threads of its own and knows no streams. Two closures tie it to them: the first, on the stream
// of the caller, says that the tensors are ready; the second, on the stream that needs the result, waits. Between the two
// the stream is free. The order in which the engine gets the calls is that of the program, never that in which streams
// arrive: all ranks must call their engines in the same order.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "operation.h"
#include "python_call_site.h"

namespace tb::distributed {

// What the calls of a process group share. Thread-safe.
class Group {
public:
  Group(int rank, int size) : rank_(rank), size_(size) {}
  void set_name(const std::string &name);
  // "all_reduce (call 3 of process group 'default_pg', rank 0 of 2)"
  std::string describe(const Operation &operation, uint64_t number) const;
  // After a failed call the peers' states are unknown. Keeps the first text.
  void set_failure(const std::string &text);
  std::string failure() const; // "" for none

private:
  const int rank_, size_;
  mutable std::mutex mutex_;
  std::string name_, failure_;
};

class Collective : public std::enable_shared_from_this<Collective> {
public:
  using Call = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend &)>;
  Collective(const Operation &operation, Call call, std::shared_ptr<Group> group, uint64_t number, int32_t device);
  ~Collective();

  // Hands the call to the engine. What the engine throws is kept. Never throws.
  void start(c10d::Backend &engine);
  // What the engine threw if it refused the arguments, before anything was sent; nullptr for nothing.
  std::exception_ptr refusal();
  void abort(); // also ends a pending send or receive of the engine
  // Waits on this thread, whatever streams do. false: it was not done within the limit. It throws nothing: see failure().
  bool wait(std::chrono::milliseconds limit = kNoTimeout);
  bool done();
  std::string failure(); // with the call site, for the error of a stream; "" for none
  // Throws the failure as DistBackendError, which names the line of the call.
  void throw_failure();
  int source(); // the rank that a receive from any rank took its message from. It waits, since nobody knows before.
  uint64_t number() const { return number_; }
  const Operation &operation() const { return operation_; }

private:
  void finish(const std::string &reason);

  const Operation &operation_;
  const std::shared_ptr<Group> group_;
  const uint64_t number_;
  const int32_t device_;
  const PythonCallSite site_, outer_site_;
  tb_record record_{}; // for timelines
  Call call_;          // holds the engine's tensors
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false, done_ = false;
  bool asking_ = false; // a thread waits for the engine's work, which has no Future: sends and receives of gloo
  bool future_reports_ = false;
  std::string failure_;
  std::exception_ptr refusal_;
  c10::intrusive_ptr<c10d::Work> engine_work_;
};

// The calls of one process group in the program's order.
class CallOrder {
public:
  static std::shared_ptr<CallOrder> make(c10::intrusive_ptr<c10d::Backend> engine);

  // Takes the next place. Throws DistBackendError once the group has failed or was aborted.
  std::shared_ptr<Collective> add(const Operation &operation, Collective::Call call, int32_t device);
  // The call's tensors are ready: starts it, and those behind it that are ready, as soon as all before it have started.
  void ready(const Collective &collective);
  void abort(const std::string &reason);
  // At the end of the process, before tb-device waits for all streams: waits for the pending calls of all groups, which
  // peers may need, and aborts those that are not done within the limit, such as a receive that nobody sends to.
  static void end_all(std::chrono::milliseconds limit);

  c10d::Backend &engine() { return *engine_; }
  Group &group() { return *group_; }
  uint64_t number(); // of the latest call
  // Streams of the group where nobody else's work waits: for futures, and for calls whose Work was dropped.
  enum class Side { futures, dropped };
  tb_stream *side_stream(int32_t device, Side side);

private:
  explicit CallOrder(c10::intrusive_ptr<c10d::Backend> engine);
  std::vector<std::shared_ptr<Collective>> pending(); // the calls that are not known to be done
  struct Entry {
    std::shared_ptr<Collective> collective;
    bool ready = false;
  };
  const c10::intrusive_ptr<c10d::Backend> engine_;
  const std::shared_ptr<Group> group_;
  std::mutex mutex_; // never held while something waits for a stream
  uint64_t number_ = 0;
  std::deque<Entry> waiting_;
  std::deque<std::shared_ptr<Collective>> running_;
  struct ReleaseStream {
    void operator()(tb_stream *stream) const { (void)runtime.stream.stream_release(stream); }
  };
  std::vector<std::array<std::unique_ptr<tb_stream, ReleaseStream>, 2>> sides_; // by device
};

} // namespace tb::distributed
