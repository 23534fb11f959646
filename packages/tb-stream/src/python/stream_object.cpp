// stream_object.cpp -- tb_stream.Stream and the functions about the current stream.
#include "python/stream_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <vector>

#include "events.h"
#include "python/callback.h"
#include "python/event_object.h"
#include "python_errors.h"
#include "streams.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::stream {
namespace {

// What leaving `with stream:` restores, innermost block last. It belongs to the thread and not to the Stream, which may
// be entered several times and by several threads.
struct Entered {
  int32_t current_device;
  Stream current;
};
thread_local std::vector<Entered> entered;

void enter(const Stream &stream) {
  Entered before{host.current_device(), current_stream_of(stream.device)};
  entered.reserve(entered.size() + 1);
  check(set_current_stream(stream.device, stream.handle), "set_current_stream", stream.device);
  check(host.set_current_device(stream.device), "set_current_device", stream.device);
  entered.push_back(before);
}

void leave() {
  if (entered.empty()) throw nb::value_error("Stream.__exit__ without __enter__ in this thread: use `with stream:`");
  Entered before = entered.back();
  entered.pop_back();
  check(set_current_stream(before.current.device, before.current.handle), "set_current_stream", before.current.device);
  check(host.set_current_device(before.current_device), "set_current_device", before.current_device);
}

bool query(const Stream &stream) {
  Driver driver = require_driver();
  tb_status status = driver.api->stream_query(driver.self, stream.handle);
  if (status == TB_NOT_READY) return false;
  check_wait(status, "stream_query", stream.device);
  return true;
}

void synchronize(const Stream &stream) {
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = driver.api->stream_synchronize(driver.self, stream.handle);
  }
  check_wait(status, "stream_synchronize", stream.device);
}

void synchronize_device(std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = driver.api->device_synchronize(driver.self, device);
  }
  check_wait(status, "device_synchronize", device);
}

void wait_stream(const Stream &stream, nb::handle other) {
  Stream ahead = stream_argument(other);
  if (ahead == stream) return; // a stream is in order within itself
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released; // a full queue makes the driver wait for room
    tb_event *event = nullptr;
    status = acquire_event(ahead.device, 0, &event);
    if (status == TB_OK) {
      status = driver.api->event_record(driver.self, event, ahead.handle);
      if (status == TB_OK) status = driver.api->stream_wait_event(driver.self, stream.handle, event);
      release_event(event);
    }
  }
  check(status, "wait_stream", stream.device);
}

uint64_t native_handle(const Stream &stream) {
  Driver driver = require_driver();
  uint64_t native = 0;
  check(driver.api->stream_native(driver.self, stream.handle, &native), "stream_native", stream.device);
  return native;
}

int32_t priority_of(const Stream &stream) {
  int32_t priority = 0;
  check(stream_priority(stream.handle, &priority), "stream_priority", stream.device);
  return priority;
}

Stream stream_of_pool(std::optional<int32_t> asked, int32_t priority) {
  int32_t device = device_or_current(asked);
  Stream stream{device, nullptr};
  check(stream_from_pool(device, priority, &stream.handle), "stream_from_pool", device);
  return stream;
}

} // namespace

void bind_stream(nb::module_ &m) {
  nb::class_<Stream>(m, "Stream",
                     "A queue of work on a device: in order within itself, not ordered against other streams.\n\n"
                     "Stream(device=None, priority=0) hands out one of the 32 streams of the pool of that device and\n"
                     "priority, in turn. Lower priorities are more urgent; out of the device's range is clamped.\n"
                     "`with stream:` makes it, and its device, current in this thread.")
      .def(
          "__init__",
          [](Stream *self, std::optional<int32_t> device, int32_t priority) {
            new (self) Stream(stream_of_pool(device, priority));
          },
          "device"_a = nb::none(), "priority"_a = 0)
      .def_ro("device", &Stream::device, "Number of the device.")
      .def_prop_ro("priority", &priority_of, "Its priority: 0 is normal, lower is more urgent.")
      .def_prop_ro(
          "handle", [](const Stream &self) { return reinterpret_cast<uintptr_t>(self.handle); },
          "Address of the driver's tb_stream, which functions of the C tables take.")
      .def_prop_ro("native", &native_handle,
                   "The vendor's own stream handle. NotImplementedError if the driver has none.")
      .def_static("from_native", &stream_of_native, "native"_a, "device"_a = nb::none(),
                  "The stream behind the vendor's own handle, such as a cudaStream_t. A stream that tb-stream did not\n"
                  "make must outlive its use here. NotImplementedError if the driver has no such handles.")
      .def(
          "add_callback",
          [](const Stream &self, nb::handle function, nb::args arguments) {
            add_callback(self, nb::borrow(function), nb::borrow<nb::tuple>(arguments));
          },
          "function"_a, "arguments"_a,
          nb::sig("def add_callback(self, function: collections.abc.Callable[..., object], *arguments: object) -> "
                  "None"),
          "Call function(*arguments) in stream order, on a thread of the driver; later work waits for it. It must not\n"
          "use devices. Its exceptions go to sys.unraisablehook. In a capture, it is called at each replay.")
      .def("query", &query, "True when all work queued so far is done. Raises the failure of queued work.")
      .def("synchronize", &synchronize, "Wait until all work queued so far is done. Raises the failure of queued work.")
      .def(
          "wait_event", [](const Stream &self, const Event &event) { event.wait(self); }, "event"_a,
          "Work queued here from now on runs after what `event` recorded last. Does not block.")
      .def("wait_stream", &wait_stream, "stream"_a,
           "Work queued here from now on runs after the work queued on `stream` so far. Does not block.")
      .def(
          "record_event",
          [](const Stream &self, std::optional<nb::typed<nb::handle, Event>> event) {
            nb::object target = event ? nb::borrow(*event) : nb::cast(new Event(0), nb::rv_policy::take_ownership);
            nb::cast<Event &>(target).record(self);
            return nb::typed<nb::object, Event>(std::move(target));
          },
          "event"_a = nb::none(), "Record `event`, or a new one, after the work queued so far, and return it.")
      .def("__enter__",
           [](nb::handle_t<Stream> self) {
             enter(nb::cast<const Stream &>(self));
             return nb::typed<nb::object, Stream>(nb::borrow(self));
           })
      .def(
          "__exit__", [](const Stream &, nb::args) { leave(); }, "exception"_a,
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def(
          "__tb_stream__",
          [](const Stream &self) { return std::pair(protocol_version, reinterpret_cast<uintptr_t>(self.handle)); },
          "(version of the protocol, handle), for packages that take streams without knowing this class.")
      .def(
          "__cuda_stream__",
          [](const Stream &self) {
            if (!is_cuda(require_driver()))
              raise(TB_UNSUPPORTED, "__cuda_stream__", self.device, "the open driver's streams are not CUDA's");
            return std::pair(protocol_version, native_handle(self));
          },
          "(version of the protocol, cudaStream_t), for packages that know CUDA's. NotImplementedError if the driver "
          "is\n"
          "not CUDA's.")
      .def(
          "__eq__",
          [](const Stream &self, nb::handle other) {
            return nb::isinstance<Stream>(other) && nb::cast<Stream>(other) == self;
          },
          "other"_a.none())
      .def("__hash__", [](const Stream &self) { return std::hash<const void *>()(self.handle); })
      .def("__repr__", [](const Stream &self) {
        return nb::str("<tb_stream.Stream device={} handle={:#x}>")
            .format(self.device, reinterpret_cast<uintptr_t>(self.handle));
      });

  m.def("current_stream", &current_stream_of, "device"_a = nb::none(),
        "This thread's current stream of a device (of the current device by default): its default stream until set.");
  m.def(
      "default_stream",
      [](std::optional<int32_t> asked) {
        int32_t device = device_or_current(asked);
        return Stream{device, default_stream(device)};
      },
      "device"_a = nb::none(), "The device's default stream: the same one each time.");
  m.def(
      "set_current_stream",
      [](nb::handle object) {
        Stream stream = stream_argument(object);
        check(set_current_stream(stream.device, stream.handle), "set_current_stream", stream.device);
        check(host.set_current_device(stream.device), "set_current_device", stream.device);
      },
      "stream"_a, "Make a stream, and its device, current in this thread. Better: `with stream:`.");
  m.def("synchronize", &synchronize_device, "device"_a = nb::none(),
        "Wait for all work queued on a device, by any thread. Raises the failure of queued work.");
}

} // namespace tb::stream
