// Streams and events for drivers without ASYNC: everything is complete.
#include "emulation/emulation.h"
#include "host/errors.h"

namespace tb::device {

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

tb_status unknown_flags(const Driver &driver, int32_t device, Slot slot, uint64_t flags) {
  return fail(TB_INVALID_ARGUMENT, device, driver.name.c_str(), facts(slot).name, "unknown flags %#llx",
              static_cast<unsigned long long>(flags));
}

tb_status device_synchronize(tb_driver *self, int32_t device) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::device_synchronize)) return status;
  driver.emulation->host_calls.wait_all();
  return TB_OK;
}

tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::stream_default)) return status;
  *out = driver.emulation->objects.default_stream(device, driver.device_count());
  return TB_OK;
}

tb_status stream_create(tb_driver *self, int32_t device, int32_t, uint64_t flags, tb_stream **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::stream_create)) return status;
  if (flags) return unknown_flags(driver, device, Slot::stream_create, flags);
  *out = driver.emulation->objects.create_stream(device);
  return TB_OK;
}

tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  driver.emulation->host_calls.wait(stream);
  return driver.emulation->objects.destroy_stream(stream)
             ? TB_OK
             : unknown_handle(driver, Slot::stream_destroy, "stream made by stream_create");
}

tb_status stream_query(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.emulation->objects.has_stream(stream)) return unknown_handle(driver, Slot::stream_query, "stream");
  return driver.emulation->host_calls.pending(stream) ? TB_NOT_READY : TB_OK;
}

tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.emulation->objects.has_stream(stream)) return unknown_handle(driver, Slot::stream_synchronize, "stream");
  driver.emulation->host_calls.wait(stream);
  return TB_OK;
}

tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  Driver &driver = driver_of(self);
  if (!driver.emulation->objects.has_stream(stream)) return unknown_handle(driver, Slot::stream_wait_event, "stream");
  if (!driver.emulation->objects.has_event(event)) return unknown_handle(driver, Slot::stream_wait_event, "event");
  return TB_OK;
}

tb_status event_create(tb_driver *self, int32_t device, uint64_t flags, tb_event **out) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::event_create)) return status;
  if (flags & ~uint64_t{TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC})
    return unknown_flags(driver, device, Slot::event_create, flags);
  *out = driver.emulation->objects.create_event(device);
  return TB_OK;
}

tb_status event_destroy(tb_driver *self, tb_event *event) {
  Driver &driver = driver_of(self);
  return driver.emulation->objects.destroy_event(event) ? TB_OK : unknown_handle(driver, Slot::event_destroy, "event");
}

// The record waits for the stream's host calls, since an event without a queue stands for what is done already.
tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  Driver &driver = driver_of(self);
  if (!driver.emulation->objects.has_event(event)) return unknown_handle(driver, Slot::event_record, "event");
  if (!driver.emulation->objects.has_stream(stream)) return unknown_handle(driver, Slot::event_record, "stream");
  driver.emulation->host_calls.wait(stream);
  return TB_OK;
}

template <Slot S> tb_status event_complete(tb_driver *self, tb_event *event) {
  Driver &driver = driver_of(self);
  return driver.emulation->objects.has_event(event) ? TB_OK : unknown_handle(driver, S, "event");
}

} // namespace

void emulate_streams(Driver &driver) {
  if (driver.offers(TB_GROUP_ASYNC)) return;
  tb_driver_api &table = driver.table;
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

} // namespace tb::device
