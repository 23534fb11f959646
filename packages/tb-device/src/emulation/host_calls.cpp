// Host functions in stream order for drivers without HOSTCALL: a thread for each stream that has some.
#include "emulation/emulation.h"

#include <system_error>
#include <thread>

#include "host/errors.h"

namespace tb::device {

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

namespace {

tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
  Driver &driver = driver_of(self);
  if (!driver.offers(TB_GROUP_ASYNC) && !driver.emulation->objects.has_stream(stream))
    return unknown_handle(driver, Slot::stream_host_call, "stream");
  return driver.emulation->host_calls.add(driver, stream, function, user);
}

// Functions of the driver itself that take a stream wait for the stream's host calls.

template <class T> void wait_for_calls(Driver &, T) {}
void wait_for_calls(Driver &driver, tb_stream *stream) { driver.emulation->host_calls.wait(stream); }

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
  return driver.emulation->host_calls.pending(stream) ? TB_NOT_READY : driver.offered.stream_query(self, stream);
}

tb_status synchronize_after_calls(tb_driver *self, int32_t device) {
  Driver &driver = driver_of(self);
  driver.emulation->host_calls.wait_all();
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

void emulate_host_calls(Driver &driver) {
  tb_driver_api &table = driver.table;
  if (table.stream_host_call) return;
  order_all(table, driver.offered);
  if (driver.offers(TB_GROUP_ASYNC)) {
    table.stream_query = query_after_calls;
    table.device_synchronize = synchronize_after_calls;
    table.stream_wait_event = driver.offered.stream_wait_event; // adds a wait and starts nothing: its order is free
  }
  // A host call may be waiting for this very closure, which its reserve has put in order already.
  if (driver.offers(TB_GROUP_CLOSURE)) {
    table.closure_commit = driver.offered.closure_commit;
    table.closure_cancel = driver.offered.closure_cancel;
  }
  table.stream_host_call = stream_host_call;
}

} // namespace tb::device
