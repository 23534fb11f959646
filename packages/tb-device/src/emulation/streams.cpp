// Streams and events for drivers without ASYNC, host calls for those without HOSTCALL.
#include <system_error>
#include <thread>

#include "emulation/emulation.h"
#include "host/errors.h"

namespace tb {

// ---- host calls ----------------------------------------------------------------------------------------------------

tb_status HostCalls::add(Driver &driver, tb_stream *stream, Function function, void *user) {
  std::lock_guard lock(mutex_);
  auto &queue = queues_[stream];
  queue.push_back({function, user});
  if (queue.size() > 1) return TB_OK; // its thread takes this one too
  ++streams_;
  try {
    std::thread([this, &driver, stream] { run(driver, stream); }).detach();
  } catch (const std::system_error &error) {
    queues_.erase(stream);
    --streams_;
    return fail(TB_UNAVAILABLE, -1, driver.name.c_str(), "stream_host_call", "cannot start a thread: %s", error.what());
  }
  return TB_OK;
}

void HostCalls::run(Driver &driver, tb_stream *stream) {
  for (;;) {
    tb_status status = TB_OK;
    if (driver.offers(TB_GROUP_ASYNC)) status = driver.offered.stream_synchronize(driver.self, stream);
    std::unique_lock lock(mutex_);
    Call call = queues_[stream].front();
    lock.unlock();
    call.function(call.user, status);
    lock.lock();
    auto &queue = queues_[stream];
    queue.pop_front();
    if (!queue.empty()) continue;
    queues_.erase(stream);
    --streams_;
    passed_.notify_all();
    return;
  }
}

bool HostCalls::pending(tb_stream *stream) const {
  if (streams_.load() == 0) return false;
  std::lock_guard lock(mutex_);
  return queues_.contains(stream);
}

void HostCalls::wait(tb_stream *stream) {
  if (streams_.load() == 0) return;
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [&] { return !queues_.contains(stream); });
}

void HostCalls::wait_all() {
  if (streams_.load() == 0) return;
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [&] { return queues_.empty(); });
}

// ---- streams and events --------------------------------------------------------------------------------------------

tb_stream *HostObjects::default_stream(int32_t device, int32_t device_count) {
  std::lock_guard lock(mutex_);
  if (defaults_.empty())
    for (int32_t each = 0; each < device_count; ++each) {
      defaults_.push_back(std::make_unique<HostStream>(each));
      streams_.insert(reinterpret_cast<tb_stream *>(defaults_.back().get()));
    }
  return reinterpret_cast<tb_stream *>(defaults_[static_cast<size_t>(device)].get());
}

tb_stream *HostObjects::create_stream(int32_t device) {
  auto *stream = reinterpret_cast<tb_stream *>(new HostStream{device});
  std::lock_guard lock(mutex_);
  streams_.insert(stream);
  return stream;
}

bool HostObjects::destroy_stream(tb_stream *stream) {
  std::lock_guard lock(mutex_);
  for (const auto &borrowed : defaults_)
    if (reinterpret_cast<tb_stream *>(borrowed.get()) == stream) return false;
  if (!streams_.erase(stream)) return false;
  delete reinterpret_cast<HostStream *>(stream);
  return true;
}

bool HostObjects::has_stream(tb_stream *stream) const {
  std::lock_guard lock(mutex_);
  return streams_.contains(stream);
}

tb_event *HostObjects::create_event(int32_t device) {
  auto *event = reinterpret_cast<tb_event *>(new HostEvent{device});
  std::lock_guard lock(mutex_);
  events_.insert(event);
  return event;
}

bool HostObjects::destroy_event(tb_event *event) {
  std::lock_guard lock(mutex_);
  if (!events_.erase(event)) return false;
  delete reinterpret_cast<HostEvent *>(event);
  return true;
}

bool HostObjects::has_event(tb_event *event) const {
  std::lock_guard lock(mutex_);
  return events_.contains(event);
}

uint64_t HostObjects::count() const {
  std::lock_guard lock(mutex_);
  return streams_.size() - defaults_.size() + events_.size();
}

namespace {

tb_status unknown(const Driver &driver, Slot slot, const char *what) {
  return fail(TB_INVALID_ARGUMENT, -1, driver.name.c_str(), facts(slot).name, "this is no live %s of %s", what,
              driver.name.c_str());
}

tb_status unknown_flags(const Driver &driver, int32_t device, Slot slot, uint64_t flags) {
  return fail(TB_INVALID_ARGUMENT, device, driver.name.c_str(), facts(slot).name, "unknown flags %#llx",
              static_cast<unsigned long long>(flags));
}

tb_status device_synchronize(tb_driver *self, int32_t device) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::device_synchronize)) return status;
  driver.standins->host_calls.wait_all();
  return TB_OK;
}

tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::stream_default)) return status;
  *out = driver.standins->objects.default_stream(device, driver.device_count());
  return TB_OK;
}

tb_status stream_create(tb_driver *self, int32_t device, int32_t, uint64_t flags, tb_stream **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::stream_create)) return status;
  if (flags) return unknown_flags(driver, device, Slot::stream_create, flags);
  *out = driver.standins->objects.create_stream(device);
  return TB_OK;
}

tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  driver.standins->host_calls.wait(stream);
  return driver.standins->objects.destroy_stream(stream)
             ? TB_OK
             : unknown(driver, Slot::stream_destroy, "stream made by stream_create");
}

tb_status stream_query(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.standins->objects.has_stream(stream)) return unknown(driver, Slot::stream_query, "stream");
  return driver.standins->host_calls.pending(stream) ? TB_NOT_READY : TB_OK;
}

tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.standins->objects.has_stream(stream)) return unknown(driver, Slot::stream_synchronize, "stream");
  driver.standins->host_calls.wait(stream);
  return TB_OK;
}

tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  Driver &driver = driver_of(self);
  if (!driver.standins->objects.has_stream(stream)) return unknown(driver, Slot::stream_wait_event, "stream");
  if (!driver.standins->objects.has_event(event)) return unknown(driver, Slot::stream_wait_event, "event");
  return TB_OK;
}

tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::event_create)) return status;
  if (flags & ~uint64_t{TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC})
    return unknown_flags(driver, device, Slot::event_create, flags);
  *out = driver.standins->objects.create_event(device);
  return TB_OK;
}

tb_status event_destroy(tb_driver *self, tb_event *event) {
  Driver &driver = driver_of(self);
  return driver.standins->objects.destroy_event(event) ? TB_OK : unknown(driver, Slot::event_destroy, "event");
}

// The record waits for the stream's host calls, so an event never lies about what came before it.
tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.standins->objects.has_event(event)) return unknown(driver, Slot::event_record, "event");
  if (!driver.standins->objects.has_stream(stream)) return unknown(driver, Slot::event_record, "stream");
  driver.standins->host_calls.wait(stream);
  return TB_OK;
}

template <Slot S> tb_status event_complete(tb_driver *self, tb_event *event) {
  Driver &driver = driver_of(self);
  return driver.standins->objects.has_event(event) ? TB_OK : unknown(driver, S, "event");
}

tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
  Driver &driver = driver_of(self);
  if (!driver.offers(TB_GROUP_ASYNC) && !driver.standins->objects.has_stream(stream))
    return unknown(driver, Slot::stream_host_call, "stream");
  return driver.standins->host_calls.add(driver, stream, function, user);
}

// ---- functions of the driver itself that take a stream -------------------------------------------------------------

template <class T> void wait_for_calls(Driver &, T) {}
void wait_for_calls(Driver &driver, tb_stream *stream) { driver.standins->host_calls.wait(stream); }

template <class T> T for_driver(const Driver &, T value) { return value; }
tb_stream *for_driver(const Driver &driver, tb_stream *stream) {
  return driver.offers(TB_GROUP_ASYNC) ? stream : nullptr;
}

template <auto Member, class... A> tb_status ordered(tb_driver *self, A... arguments) {
  Driver &driver = driver_of(self);
  (wait_for_calls(driver, arguments), ...);
  return (driver.offered.*Member)(self, for_driver(driver, arguments)...);
}

template <auto Member, class... A> void order(tb_status (*&slot)(tb_driver *, A...)) {
  if constexpr ((std::is_same_v<A, tb_stream *> || ...))
    if (slot) slot = ordered<Member, A...>;
}

tb_status query_after_calls(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  return driver.standins->host_calls.pending(stream) ? TB_NOT_READY : driver.offered.stream_query(self, stream);
}

tb_status synchronize_after_calls(tb_driver *self, int32_t device) {
  Driver &driver = driver_of(self);
  driver.standins->host_calls.wait_all();
  return driver.offered.device_synchronize(self, device);
}

void order_all(tb_driver_api &table, const tb_driver_api &offered) {
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (offered.name) order<&tb_driver_api::name>(table.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

} // namespace

void stand_in_streams(Driver &driver) {
  tb_driver_api &table = driver.table;
  if (!table.stream_host_call) {
    order_all(table, driver.offered);
    if (driver.offers(TB_GROUP_ASYNC)) {
      table.stream_query = query_after_calls;
      table.device_synchronize = synchronize_after_calls;
      table.stream_wait_event = driver.offered.stream_wait_event; // adds a wait, starts nothing: order does not matter
    }
    // A host call may be waiting for this very closure: ordered by its reserve already.
    if (driver.offers(TB_GROUP_CLOSURE)) {
      table.closure_commit = driver.offered.closure_commit;
      table.closure_cancel = driver.offered.closure_cancel;
    }
    table.stream_host_call = stream_host_call;
  }
  if (driver.offers(TB_GROUP_ASYNC)) return;
  table.device_synchronize = device_synchronize;
  table.stream_default = stream_default;
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.stream_query = stream_query;
  table.stream_synchronize = stream_synchronize;
  table.stream_wait_event = stream_wait_event;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_complete<Slot::event_query>;
  table.event_synchronize = event_complete<Slot::event_synchronize>;
}

} // namespace tb
