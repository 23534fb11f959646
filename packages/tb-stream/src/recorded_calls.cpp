// recorded_calls.cpp -- replaces entries of the driver's table.
#include "recorded_calls.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "capture.h"
#include "recorder.h"

namespace tb::stream {

// A kind of closures with a header, under the name of the kind inside.
struct WrappedKind {
  tb_closure own;
  const tb_closure *inner;
};

namespace {

struct alignas(TB_CLOSURE_ALIGNMENT) Header {
  const WrappedKind *kind;
  uint64_t number;    // 0: the closure is captured
  int64_t call_begin; // of the reserve
};

struct State {
  std::mutex mutex; // guards what follows, except the atomics
  bool recording = false;
  int32_t captures = 0;
  bool ended = false;
  std::unordered_map<const tb_closure *, std::unique_ptr<WrappedKind>> kinds;
  tb_driver_api *table = nullptr; // this and the next two are constant once they are found
  tb_driver *self = nullptr;
  tb_driver_api driver{}; // the driver's own entries
  std::atomic<bool> wrapping{false};
  // Storage with a header that is neither committed nor cancelled, which only functions of this file can handle. They
  // leave the table when it is 0 and `wrapping` is false. A reserve counts first and then looks at `wrapping`.
  std::atomic<int64_t> reserved{0};
};
State &state() {
  static State *made = new State; // queued work may end after the static destructors
  return *made;
}

void drop_error() {
  tb_error error{};
  error.struct_size = sizeof error;
  host.take_error(&error);
}

bool is_captured(tb_stream *stream) {
  bool active = false;
  if (capture_is_active(stream, &active) != TB_OK) drop_error();
  return active;
}

template <class Slot> void put(Slot &slot, Slot function) { std::atomic_ref(slot).store(function); }

// ---- closures ------------------------------------------------------------------------------------------------------

std::byte *inside(void *storage) { return static_cast<std::byte *>(storage) + sizeof(Header); }
void *outside(void *storage) { return static_cast<std::byte *>(storage) - sizeof(Header); }

tb_status run_wrapped(void *storage, const tb_closure_context *context);

// The context that the closure inside receives. Its `next` gives closures without their headers, so that a closure knows
// those behind it.
struct InnerContext {
  tb_closure_context given{};
  const tb_closure_context *outer;
  void *last = nullptr; // what the driver returned last

  explicit InnerContext(const tb_closure_context *context) : outer(context) {
    const uint32_t size = std::min<uint32_t>(context->struct_size, sizeof given);
    std::memcpy(&given, context, size);
    given.struct_size = size;
    if (given.next) given.next = &next;
  }

  static const tb_closure *next(const tb_closure_context *context, void **storage) {
    static_assert(offsetof(InnerContext, given) == 0);
    auto &self = *reinterpret_cast<InnerContext *>(const_cast<tb_closure_context *>(context));
    void *found = *storage ? self.last : nullptr;
    const tb_closure *kind = self.outer->next(self.outer, &found);
    if (!kind) return nullptr;
    self.last = found;
    const bool wrapped = kind->run == &run_wrapped;
    *storage = wrapped ? inside(found) : found;
    return wrapped ? static_cast<Header *>(found)->kind->inner : kind;
  }
};

tb_status run_wrapped(void *storage, const tb_closure_context *context) {
  const Header header = *static_cast<Header *>(storage);
  const tb_closure &inner = *header.kind->inner;
  InnerContext own(context);
  const RecordedThread *thread = recording() && !header.number ? this_thread() : nullptr;
  const uint64_t graph = thread ? thread->graph : 0;
  if (!recording() || (!header.number && !graph)) return inner.run(inside(storage), &own.given);
  tb_record run{};
  run.kind = TB_RECORD_KERNEL;
  run.name = inner.name;
  run.stream = context->stream;
  run.device = context->device;
  run.number = graph ? next_record() : header.number;
  run.graph = graph;
  run.begin = now();
  const tb_status status = inner.run(inside(storage), &own.given);
  run.end = now();
  note_run(run);
  return status;
}

void destroy_wrapped(void *storage) { static_cast<Header *>(storage)->kind->inner->destroy(inside(storage)); }

// Throws std::bad_alloc.
const WrappedKind *wrapped(const tb_closure *closure) {
  const WrappedKind *&mine = this_thread()->kinds[closure]; // the thread has reserved, and is known
  if (mine) return mine;
  State &all = state();
  std::lock_guard guard(all.mutex);
  std::unique_ptr<WrappedKind> &kind = all.kinds[closure];
  if (!kind)
    kind = std::make_unique<WrappedKind>(
        WrappedKind{{sizeof(tb_closure), 0, closure->name, run_wrapped, destroy_wrapped}, closure});
  return mine = kind.get();
}

tb_status closure_commit(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure);
tb_status closure_cancel(tb_driver *self, tb_stream *stream, void *storage);
tb_status closure_reserve(tb_driver *self, tb_stream *stream, uint64_t size, void **out);

// The caller holds the lock.
void put_closure_functions(State &all) {
  if (all.wrapping) { // the reserve last: only the other two can handle storage with a header
    put(all.table->closure_commit, &closure_commit);
    put(all.table->closure_cancel, &closure_cancel);
    put(all.table->closure_reserve, &closure_reserve);
    return;
  }
  put(all.table->closure_reserve, all.driver.closure_reserve);
  if (all.reserved != 0) return;
  put(all.table->closure_commit, all.driver.closure_commit);
  put(all.table->closure_cancel, all.driver.closure_cancel);
}

void count_down(State &all) {
  if (all.reserved.fetch_sub(1) != 1 || all.wrapping) return;
  std::lock_guard guard(all.mutex);
  if (!all.ended) put_closure_functions(all);
}

bool take_reserved(void *storage) {
  RecordedThread *thread = this_thread();
  if (!thread) return false;
  const auto found = std::find(thread->reserved.begin(), thread->reserved.end(), storage);
  if (found == thread->reserved.end()) return false;
  thread->reserved.erase(found);
  return true;
}

// NULL with TB_OK if the closure is to have no header.
void *reserve_with_header(State &all, tb_stream *stream, uint64_t size, tb_status *status) {
  const bool captured = is_captured(stream);
  RecordedThread *thread = captured || recording() ? this_thread() : nullptr;
  if (!thread || size > UINT64_MAX - sizeof(Header)) return nullptr;
  try {
    thread->reserved.reserve(thread->reserved.size() + 1);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
  const int64_t begin = now();
  void *storage = nullptr;
  *status = all.driver.closure_reserve(all.self, stream, size + sizeof(Header), &storage);
  if (*status == TB_OUT_OF_RANGE) { // it may fit without
    drop_error();
    *status = TB_OK;
  }
  if (!storage) return nullptr;
  new (storage) Header{nullptr, captured ? 0 : next_record(), begin};
  thread->reserved.push_back(inside(storage));
  return inside(storage);
}

tb_status closure_reserve(tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
  State &all = state();
  all.reserved.fetch_add(1);
  tb_status status = TB_OK;
  void *storage = all.wrapping ? reserve_with_header(all, stream, size, &status) : nullptr;
  if (storage) {
    *out = storage;
    return TB_OK;
  }
  count_down(all);
  return status == TB_OK ? all.driver.closure_reserve(self, stream, size, out) : status;
}

tb_status closure_commit(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
  State &all = state();
  if (!take_reserved(storage)) return all.driver.closure_commit(self, stream, storage, closure);
  auto *header = static_cast<Header *>(outside(storage));
  try {
    header->kind = wrapped(closure);
  } catch (const std::bad_alloc &) {
    (void)all.driver.closure_cancel(self, stream, header);
    count_down(all);
    return fail(TB_INTERNAL, -1, "closure_commit", "the host has no memory left to record the operation");
  }
  const tb_closure *kind = &header->kind->own;
  tb_record call{};
  call.kind = TB_RECORD_KERNEL;
  call.name = closure->name;
  call.stream = stream;
  call.device = -1;
  call.number = header->number; // the header must not be read after the commit: the closure may have run
  call.call_begin = header->call_begin;
  const tb_status status = all.driver.closure_commit(self, stream, header, kind);
  count_down(all);
  if (call.number && status == TB_OK) note_call(call);
  return status;
}

tb_status closure_cancel(tb_driver *self, tb_stream *stream, void *storage) {
  State &all = state();
  if (!take_reserved(storage)) return all.driver.closure_cancel(self, stream, storage);
  const tb_status status = all.driver.closure_cancel(self, stream, outside(storage));
  count_down(all);
  return status;
}

// ---- other work ----------------------------------------------------------------------------------------------------

// Puts a host call before what `call` is about to queue. Returns the record of its run, NULL after a failure.
tb_record *open_span(const tb_record &call) {
  State &all = state();
  std::unique_ptr<tb_record> span(new (std::nothrow) tb_record(call));
  if (!span) return nullptr;
  const auto begin = [](void *user, tb_status) {
    auto *run = static_cast<tb_record *>(user);
    run->begin = now();
    if (run->kind == TB_RECORD_GRAPH)
      if (RecordedThread *thread = this_thread()) thread->graph = run->number;
  };
  span->call_begin = 0;
  if (all.driver.stream_host_call(all.self, call.stream, begin, span.get()) == TB_OK) return span.release();
  drop_error();
  return nullptr;
}

// Puts a host call behind it.
void close_span(tb_record *span, tb_stream *stream) {
  if (!span) return;
  State &all = state();
  const auto end = [](void *user, tb_status) {
    const std::unique_ptr<tb_record> run(static_cast<tb_record *>(user));
    run->end = now();
    if (run->kind == TB_RECORD_GRAPH)
      if (RecordedThread *thread = this_thread()) thread->graph = 0;
    note_run(*run);
  };
  // If this fails, the first call may still be pending and use the record, which is therefore not freed.
  if (all.driver.stream_host_call(all.self, stream, end, span) != TB_OK) drop_error();
}

tb_record described(int32_t kind, const char *name, tb_stream *stream, uint64_t bytes = 0, int32_t copy_kind = 0) {
  tb_record call{};
  call.kind = kind;
  call.name = name;
  call.stream = stream;
  call.device = -1;
  call.bytes = bytes;
  call.copy_kind = copy_kind;
  return call;
}
tb_record describe_copy(int32_t, tb_stream *stream, void *, const void *, uint64_t size, int32_t kind) {
  return described(TB_RECORD_COPY, "mem_copy", stream, size, kind);
}
tb_record describe_copy_2d(int32_t, tb_stream *stream, const tb_copy_2d *copy) {
  return copy ? described(TB_RECORD_COPY, "mem_copy_2d", stream, copy->width * copy->height, copy->kind)
              : described(TB_RECORD_COPY, "mem_copy_2d", stream);
}
tb_record describe_peer_copy(tb_stream *stream, void *, int32_t, const void *, int32_t, uint64_t size) {
  return described(TB_RECORD_COPY, "peer_copy", stream, size, TB_COPY_DEVICE_TO_DEVICE);
}
tb_record describe_set(int32_t, tb_stream *stream, void *, uint32_t, uint32_t pattern_size, uint64_t count) {
  return described(TB_RECORD_SET, "mem_set", stream, pattern_size * count);
}
tb_record describe_launch(tb_stream *stream, tb_function *, const tb_launch *) {
  return described(TB_RECORD_KERNEL, "launch", stream);
}
tb_record describe_wait_event(tb_stream *stream, tb_event *) {
  return described(TB_RECORD_WAIT_EVENT, "stream_wait_event", stream);
}
tb_record describe_host_call(tb_stream *stream, void (*)(void *, tb_status), void *) {
  return described(TB_RECORD_HOST_CALL, "stream_host_call", stream);
}
tb_record describe_stream_synchronize(tb_stream *stream) {
  return described(TB_RECORD_WAIT, "stream_synchronize", stream);
}
tb_record describe_device_synchronize(int32_t device) {
  tb_record call = described(TB_RECORD_WAIT, "device_synchronize", nullptr);
  call.device = device;
  return call;
}
tb_record describe_event_synchronize(tb_event *) { return described(TB_RECORD_WAIT, "event_synchronize", nullptr); }

// The function that stands in the table for the driver's `slot`.
template <auto slot, auto describe, class Function> struct Recorded;
template <auto slot, auto describe, class... Arguments>
struct Recorded<slot, describe, tb_status (*)(tb_driver *, Arguments...)> {
  static tb_status call(tb_driver *self, Arguments... arguments) {
    const auto function = state().driver.*slot;
    tb_record call = describe(arguments...);
    const bool runs = call.kind != TB_RECORD_WAIT && call.stream;
    if (!recording() || (runs && is_captured(call.stream))) return function(self, arguments...);
    call.number = next_record();
    call.call_begin = now();
    tb_record *span = runs ? open_span(call) : nullptr;
    const tb_status status = function(self, arguments...);
    close_span(span, call.stream);
    note_call(call);
    return status;
  }
};

// ---- the table -----------------------------------------------------------------------------------------------------

template <auto slot, auto describe> void exchange(State &all) {
  using Function = std::remove_cvref_t<decltype(std::declval<tb_driver_api &>().*slot)>;
  put<Function>(all.table->*slot, all.recording ? &Recorded<slot, describe, Function>::call : all.driver.*slot);
}

// Brings the table up to date. The caller holds the lock.
void exchange_all(State &all) {
  using Api = tb_driver_api;
  exchange<&Api::stream_synchronize, describe_stream_synchronize>(all);
  exchange<&Api::device_synchronize, describe_device_synchronize>(all);
  exchange<&Api::event_synchronize, describe_event_synchronize>(all);
  exchange<&Api::mem_copy, describe_copy>(all);
  exchange<&Api::mem_set, describe_set>(all);
  exchange<&Api::mem_copy_2d, describe_copy_2d>(all);
  exchange<&Api::peer_copy, describe_peer_copy>(all);
  exchange<&Api::launch, describe_launch>(all);
  exchange<&Api::stream_wait_event, describe_wait_event>(all);
  exchange<&Api::stream_host_call, describe_host_call>(all);
  all.wrapping = all.recording || all.captures > 0;
  put_closure_functions(all);
}

// Runs before the driver is closed, which makes tb-device put refusing functions into the table.
void shutdown(void *) {
  State &all = state();
  std::lock_guard guard(all.mutex);
  all.recording = false;
  all.captures = 0;
  exchange_all(all);
  all.ended = true;
}

} // namespace

tb_status find_table() {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (*host.forked) return driver.api->device_synchronize(driver.self, 0); // refuses, with the text
  State &all = state();
  std::lock_guard guard(all.mutex);
  if (all.table) return TB_OK;
  if (tb_status status = host.on_shutdown(shutdown, nullptr); status != TB_OK) return status;
  all.self = driver.self;
  all.driver = *driver.api;
  all.table = const_cast<tb_driver_api *>(driver.api); // tb-device's table, which is not a constant object
  return TB_OK;
}

tb_status observe_calls(bool on) {
  State &all = state();
  std::lock_guard guard(all.mutex);
  if (on && all.ended) return fail(TB_FAILED_PRECONDITION, -1, "record_start", "the process is ending");
  all.recording = on;
  if (!all.ended) exchange_all(all);
  return TB_OK;
}

void observe_capture(bool on) {
  if (*host.forked) return;
  State &all = state();
  std::lock_guard guard(all.mutex);
  if (all.ended) return;
  all.captures += on ? 1 : -1;
  exchange_all(all);
}

RecordedLaunch::RecordedLaunch(tb_stream *stream) {
  if (!recording()) return;
  call_ = described(TB_RECORD_GRAPH, "graph_launch", stream);
  call_.number = next_record();
  call_.call_begin = now();
  span_ = open_span(call_);
}

RecordedLaunch::~RecordedLaunch() {
  if (!call_.number) return;
  close_span(span_, call_.stream);
  note_call(call_);
}

} // namespace tb::stream
