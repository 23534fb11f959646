// event_object.cpp -- tb_stream.Event.
#include "python/event_object.h"

#include <nanobind/stl/optional.h>

#include "events.h"
#include "python_errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::stream {

Event::~Event() {
  // This fails only for an event that is not of the pool, which event_ never is.
  if (event_) release_event(event_);
}

Event::Event(int32_t device, const tb_ipc_handle &handle) : flags_(TB_EVENT_IPC), device_(device) {
  check(import_event(device, handle, &event_), "ipc_import_event", device);
}

tb_ipc_handle Event::ipc_handle() {
  if (!(flags_ & TB_EVENT_IPC))
    raise(TB_INVALID_ARGUMENT, "Event.ipc_handle", device_, "the event must be made with interprocess=True");
  Driver driver = require_driver();
  if (!event_) {
    const int32_t device = host.current_device();
    check(acquire_event(device, flags_, &event_), "event_create", device);
    device_ = device;
  }
  tb_ipc_handle handle{};
  handle.struct_size = sizeof handle;
  check(driver.api->ipc_export_event(driver.self, event_, &handle), "ipc_export_event", device_);
  return handle;
}

void Event::record(const Stream &stream) {
  if (device_ >= 0 && device_ != stream.device)
    raise(TB_INVALID_ARGUMENT, "Event.record", stream.device,
          "the event was recorded on another device first: use one event for each device");
  Driver driver = require_driver();
  tb_event *event = event_;
  tb_status status = TB_OK;
  {
    nb::gil_scoped_release released; // a full queue makes the driver wait for room
    if (!event) status = acquire_event(stream.device, flags_, &event);
    if (status == TB_OK) status = driver.api->event_record(driver.self, event, stream.handle);
    if (status != TB_OK && event && !event_) release_event(event);
  }
  check(status, "event_record", stream.device);
  event_ = event;
  device_ = stream.device;
}

void Event::wait(const Stream &stream) const {
  if (!event_) return; // an event without a record is complete
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = driver.api->stream_wait_event(driver.self, stream.handle, event_);
  }
  check(status, "stream_wait_event", stream.device);
}

bool Event::query() const {
  if (!event_) return true;
  Driver driver = require_driver();
  tb_status status = driver.api->event_query(driver.self, event_);
  if (status == TB_NOT_READY) return false;
  check_wait(status, "event_query", device_);
  return true;
}

void Event::synchronize() const {
  if (!event_) return;
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = driver.api->event_synchronize(driver.self, event_);
  }
  check_wait(status, "event_synchronize", device_);
}

double Event::elapsed_time(const Event &end) const {
  if (!(flags_ & end.flags_ & TB_EVENT_TIMING))
    raise(TB_INVALID_ARGUMENT, "Event.elapsed_time", device_, "both events must be made with enable_timing=True");
  if (!event_ || !end.event_)
    raise(TB_INVALID_ARGUMENT, "Event.elapsed_time", device_, "both events must be recorded first");
  Driver driver = require_driver();
  int64_t nanoseconds = 0;
  tb_status status = driver.api->event_elapsed_ns(driver.self, event_, end.event_, &nanoseconds);
  if (status == TB_NOT_READY)
    raise(TB_FAILED_PRECONDITION, "Event.elapsed_time", device_,
          "an event is not complete yet: synchronize() the end event first");
  check(status, "event_elapsed_ns", device_);
  return static_cast<double>(nanoseconds) * 1e-6;
}

void bind_event(nb::module_ &m) {
  nb::class_<Event>(m, "Event",
                    "A point in a stream. Event(enable_timing=False, blocking=False, interprocess=False): with\n"
                    "enable_timing it measures time, with blocking its synchronize() sleeps at once instead of\n"
                    "spinning first, with interprocess other processes can wait for it. It belongs to the device of\n"
                    "its first record; before that it is complete.")
      .def(
          "__init__",
          [](Event *self, bool enable_timing, bool blocking, bool interprocess) {
            new (self) Event((enable_timing ? TB_EVENT_TIMING : 0) | (blocking ? TB_EVENT_BLOCKING : 0) |
                             (interprocess ? TB_EVENT_IPC : 0));
          },
          "enable_timing"_a = false, "blocking"_a = false, "interprocess"_a = false)
      .def(
          "ipc_handle",
          [](Event &self) {
            const tb_ipc_handle handle = self.ipc_handle();
            return nb::bytes(reinterpret_cast<const char *>(handle.bytes), sizeof handle.bytes);
          },
          "What from_ipc_handle() of another process of this user takes. Needs interprocess=True.")
      .def_static(
          "from_ipc_handle",
          [](int32_t device, const nb::bytes &bytes) {
            tb_ipc_handle handle{};
            handle.struct_size = sizeof handle;
            if (bytes.size() != sizeof handle.bytes)
              throw nb::value_error("the handle must be the bytes that Event.ipc_handle() gave");
            memcpy(handle.bytes, bytes.data(), bytes.size());
            return new Event(device, handle);
          },
          "device"_a, "handle"_a, nb::rv_policy::take_ownership,
          "The event of another process: waits and queries see the records made there. It cannot be recorded here.")
      .def(
          "record", [](Event &self, nb::handle stream) { self.record(stream_argument(stream)); },
          "stream"_a.none() = nb::none(),
          "Mark the work queued so far on `stream` (the current one by default). Replaces the earlier point.")
      .def(
          "wait", [](const Event &self, nb::handle stream) { self.wait(stream_argument(stream)); },
          "stream"_a.none() = nb::none(),
          "Work queued on `stream` (the current one by default) from now on runs after this point. Does not block.")
      .def("query", &Event::query, "True when the marked work is done. Raises its failure.")
      .def("synchronize", &Event::synchronize, "Wait until the marked work is done. Raises its failure.")
      .def("elapsed_time", &Event::elapsed_time, "end"_a,
           "Milliseconds from this event to `end`. Both need enable_timing=True, a record, and to be complete.")
      .def_prop_ro(
          "device", [](const Event &self) { return self.device() < 0 ? std::nullopt : std::optional(self.device()); },
          "Number of the device; None before the first record.")
      .def_prop_ro(
          "handle", [](const Event &self) { return reinterpret_cast<uintptr_t>(self.handle()); },
          "Address of the driver's tb_event; 0 before the first record.")
      .def("__repr__", [](const Event &self) {
        return nb::str("<tb_stream.Event device={} handle={:#x}>")
            .format(self.device() < 0 ? nb::object(nb::none()) : nb::cast(self.device()),
                    reinterpret_cast<uintptr_t>(self.handle()));
      });
}

} // namespace tb::stream
