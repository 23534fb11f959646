// recorded_calls.cpp -- replaces entries of the driver's table.
#include "recorded_calls.h"

#include <memory>
#include <mutex>
#include <new>

#include "capture.h"
#include "recorded_table.h"
#include "recorder.h"

namespace tb::stream {

RecordedTable &recorded_table() {
  static RecordedTable *made = new RecordedTable; // queued work may end after the static destructors
  return *made;
}

bool is_captured(tb_stream *stream) {
  bool active = false;
  if (capture_is_active(stream, &active) != TB_OK) drop_error();
  return active;
}

namespace {

// ---- other work ----------------------------------------------------------------------------------------------------

// Puts a host call before what `call` is about to queue. Returns the record of its run, NULL after a failure.
tb_record *open_span(const tb_record &call) {
  RecordedTable &all = recorded_table();
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
  RecordedTable &all = recorded_table();
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

// The function that replaces the driver's `slot` in the table.
template <auto slot, auto describe, class Function> struct Recorded;
template <auto slot, auto describe, class... Arguments>
struct Recorded<slot, describe, tb_status (*)(tb_driver *, Arguments...)> {
  static tb_status call(tb_driver *self, Arguments... arguments) {
    const auto function = recorded_table().driver.*slot;
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

template <auto slot, auto describe> void exchange(RecordedTable &all) {
  using Function = std::remove_cvref_t<decltype(std::declval<tb_driver_api &>().*slot)>;
  const Function function = all.recording ? &Recorded<slot, describe, Function>::call : all.driver.*slot;
  put<Function>(all.beneath.*slot, function);
  put<Function>(all.table->*slot, function);
}

// Brings the table up to date. The caller holds the lock.
void exchange_all(RecordedTable &all) {
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
  put_interrupting_functions(all);
  all.wrapping = all.recording || all.captures > 0;
  put_closure_functions(all);
}

// Runs before the driver is closed, which makes tb-device put refusing functions into the table.
void shutdown(void *) {
  RecordedTable &all = recorded_table();
  std::lock_guard guard(all.mutex);
  all.recording = false;
  all.captures = all.interruptible = 0;
  exchange_all(all);
  all.ended = true;
}

} // namespace

tb_status find_table() {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (*host.forked) return driver.api->device_synchronize(driver.self, 0); // refuses, with the text
  RecordedTable &all = recorded_table();
  std::lock_guard guard(all.mutex);
  if (all.table) return TB_OK;
  if (tb_status status = host.on_shutdown(shutdown, nullptr); status != TB_OK) return status;
  all.self = driver.self;
  all.driver = all.beneath = *driver.api;
  all.table = const_cast<tb_driver_api *>(driver.api); // tb-device's table, which is not a constant object
  return TB_OK;
}

tb_status observe_calls(bool on) {
  RecordedTable &all = recorded_table();
  std::lock_guard guard(all.mutex);
  if (on && all.ended) return fail(TB_FAILED_PRECONDITION, -1, "record_start", "the process is ending");
  all.recording = on;
  if (!all.ended) exchange_all(all);
  return TB_OK;
}

static void count_captures(int32_t RecordedTable::*count, bool on) {
  if (*host.forked) return;
  RecordedTable &all = recorded_table();
  std::lock_guard guard(all.mutex);
  if (all.ended) return;
  all.*count += on ? 1 : -1;
  exchange_all(all);
}

void observe_capture(bool on) { count_captures(&RecordedTable::captures, on); }
void observe_interruptible(bool on) { count_captures(&RecordedTable::interruptible, on); }

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
