// The layer that finds memory which two streams use at once, one of them to write, without an event or a wait between.
//
// It knows what orders streams and the host (order.h), and the last uses of each piece of memory (shadow.h). Copies and
// sets of the table it sees itself; what operators use, components tell it through the extension tb.races. Each pair of
// places is reported once: in the log as a warning, and in races(). Has no options.
//
// Nothing is a race that might be none. So the host knows to be done what it waited for or asked about, and what came before
// a callback that has run; an event of another process comes after everything; memory that goes back to the driver is
// forgotten; work of a graph is one piece.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "layers/framework/layer.h"
#include "layers/framework/options.h"
#include "layers/races/shadow.h"

namespace tb::layers {

// One side of a race.
struct RaceSide {
  Use use;
  bool on_host = false;
  const void *stream = nullptr; // NULL for the host
  bool standard = false;        // a default stream
  int32_t device = -1;
};

struct Race {
  RaceSide first, second;
  uintptr_t address = 0; // of the second
  uint64_t bytes = 0;
  bool reused = false; // the memory was freed and given out again between the two
  std::string text() const;
};

// Where in a program: (code, instruction) of frames of Python, innermost first.
using Place = std::vector<uintptr_t>;

class Races : public LayerOf<Races> {
public:
  static constexpr const char *name = "races";
  Races(const tb_host *host, OptionReader &);
  ~Races() override;
  // Offers tb.races also around a driver without get_extension.
  void wrap(tb_driver_api *api, tb_driver **self) override;

  std::vector<Race> races() const; // in the order in which they were found
  Place place(uint32_t number) const;
  void clear(); // forgets the races that were found, so that they are found again

  // ---- tb.races ----
  void set_place(uint32_t (*place)(uintptr_t *, uint32_t)) { place_ = place; }
  uint64_t work(tb_stream *stream);
  void use(tb_stream *stream, uint64_t number, const char *work, const tb_races_memory *memory, uint32_t count);
  void allocated(const void *address, uint64_t size);
  void mark(const void *mark, const void *stream);
  void follow(const void *stream, const void *mark);
  void forget_mark(const void *mark);
  // The host sees done what came before a callback that runs.
  void before_host_work(const Clock &before);
  uint64_t found() const { return found_.load(std::memory_order_relaxed); }

  // ---- the table ----
  tb_status around(On<Slot::get_extension>, Next next, const char *name, uint32_t version, void *table, uint32_t size);
  tb_status around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out);
  tb_status around(On<Slot::stream_create>, Next next, int32_t device, int32_t priority, uint64_t flags,
                   tb_stream **out);
  tb_status around(On<Slot::stream_wrap>, Next next, int32_t device, uint64_t native, tb_stream **out);
  tb_status around(On<Slot::stream_query>, Next next, tb_stream *stream) { return seeing(next, stream); }
  tb_status around(On<Slot::stream_synchronize>, Next next, tb_stream *stream) { return seeing(next, stream); }
  tb_status around(On<Slot::device_synchronize>, Next next, int32_t device);
  tb_status around(On<Slot::device_reset>, Next next, int32_t device);
  tb_status around(On<Slot::event_record>, Next next, tb_event *event, tb_stream *stream);
  tb_status around(On<Slot::stream_wait_event>, Next next, tb_stream *stream, tb_event *event);
  tb_status around(On<Slot::event_query>, Next next, tb_event *event) { return passing(next, event); }
  tb_status around(On<Slot::event_synchronize>, Next next, tb_event *event) { return passing(next, event); }
  tb_status around(On<Slot::event_destroy>, Next next, tb_event *event);
  tb_status around(On<Slot::ipc_import_event>, Next next, int32_t device, const tb_ipc_handle *handle, tb_event **out);

  tb_status around(On<Slot::mem_copy>, Next next, int32_t device, tb_stream *stream, void *dst, const void *src,
                   uint64_t size, int32_t kind);
  tb_status around(On<Slot::mem_copy_2d>, Next next, int32_t device, tb_stream *stream, const tb_copy_2d *copy);
  tb_status around(On<Slot::peer_copy>, Next next, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                   int32_t src_device, uint64_t size);
  tb_status around(On<Slot::mem_set>, Next next, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                   uint32_t pattern_size, uint64_t count);

  tb_status around(On<Slot::mem_alloc_host>, Next next, int32_t device, uint64_t size, uint64_t flags, void **out);
  tb_status around(On<Slot::mem_register_host>, Next next, int32_t device, void *ptr, uint64_t size, uint64_t flags);
  tb_status around(On<Slot::mem_free_host>, Next next, void *ptr) { return ending_host(next, ptr); }
  tb_status around(On<Slot::mem_unregister_host>, Next next, void *ptr) { return ending_host(next, ptr); }
  tb_status around(On<Slot::mem_alloc>, Next next, int32_t device, uint64_t size, uint64_t flags, void **out);
  tb_status around(On<Slot::mem_alloc_async>, Next next, tb_stream *stream, uint64_t size, uint64_t flags, void **out);
  tb_status around(On<Slot::vmm_unmap>, Next next, void *address, uint64_t size);

  tb_status around(On<Slot::close>, Next next) { return next(); }
  tb_status around(On<Slot::stream_host_call>, Next next, tb_stream *stream, void (*function)(void *, tb_status),
                   void *user);
  tb_status around(On<Slot::closure_commit>, Next next, tb_stream *stream, void *storage, const tb_closure *closure);

  tb_status around(On<Slot::capture_begin>, Next next, tb_stream *stream, uint64_t flags);
  tb_status around(On<Slot::capture_end>, Next next, tb_stream *stream, tb_graph **out);
  tb_status around(On<Slot::graph_destroy>, Next next, tb_graph *graph);
  tb_status around(On<Slot::graph_instantiate>, Next next, tb_graph *graph, uint64_t flags, tb_graph_exec **out);
  tb_status around(On<Slot::graph_update>, Next next, tb_graph_exec *executable, tb_graph *graph);
  tb_status around(On<Slot::graph_launch>, Next next, tb_graph_exec *executable, tb_stream *stream);
  tb_status around(On<Slot::graph_exec_destroy>, Next next, tb_graph_exec *executable);

private:
  struct EventPoint {
    Clock clock;
    std::weak_ptr<RecordedGraph> capture;
    bool everything = false; // recorded elsewhere or in a capture: what it stands for is not known
  };
  struct Executable {
    std::shared_ptr<RecordedGraph> graph;
    Clock last; // of its last launch
  };
  struct HostCall;

  tb_status offer(uint32_t version, void *table, uint32_t size);
  tb_status seeing(Next next, tb_stream *stream);
  tb_status passing(Next next, tb_event *event);
  tb_status ending_host(Next next, void *ptr);
  void made_stream(tb_stream *stream, int32_t device, bool standard);
  void wraps_closure(const tb_closure *closure, const tb_closure **out);
  void copies(tb_stream *stream, const char *work, const Extent &dst, const Extent &src);
  // The lock is held.
  void note(OrderedStream *stream, uint64_t number, const Extent &extent, const Use &use);
  void report(const StreamUse &earlier, const Use &use, const OrderedStream *later, const Extent &extent);
  RaceSide side_of(const Use &use, const OrderedStream *stream) const;
  bool is_pinned(const Extent &extent) const;
  uint32_t number_of(const Place &place);
  Place place_here() const;
  void leave_capture(const std::shared_ptr<RecordedGraph> &capture);

  mutable std::mutex mutex_; // guards all that follows, except the atomics
  Order order_;
  Shadow shadow_;
  std::unordered_map<const void *, EventPoint> points_; // of events and marks
  std::map<uintptr_t, uintptr_t> pinned_;               // begin to end
  std::unordered_map<const void *, std::shared_ptr<RecordedGraph>> graphs_;
  std::unordered_map<const void *, Executable> executables_;
  std::map<Place, uint32_t> places_;
  std::vector<const Place *> place_of_number_;
  std::unordered_map<const tb_closure *, std::unique_ptr<tb_closure>> kinds_;
  std::vector<std::unique_ptr<HostCall>> captured_calls_;
  std::vector<Race> races_;
  std::set<std::tuple<const char *, uint32_t, const char *, uint32_t, bool, bool>> reported_;
  std::atomic<uint64_t> found_{0};
  std::atomic<uint32_t (*)(uintptr_t *, uint32_t)> place_{nullptr};
};

} // namespace tb::layers
