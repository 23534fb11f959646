// components.cpp -- imports the other components' tables; handles the first use, forks and the end of the process.
#include <Python.h>

#include "components.h"

#include <pthread.h>

#include <array>
#include <string>

#include <torch/csrc/utils/device_lazy_init.h>

#include "tb/component_python.h"
#include "tb/python_error.h"

namespace tb::backend {

Components components;
std::atomic<Readiness> readiness{Readiness::cold};

namespace {

constexpr const char *fork_text =
    "tb devices cannot be used in a forked child of a process that has already used them: streams and driver threads "
    "do not survive fork(). Use the 'spawn' start method (torch.multiprocessing.set_start_method('spawn')), or fork "
    "before the first use of a tb device.";
constexpr const char *closed_text =
    "the tb driver is closed because the process is ending; move work that uses tb devices to an earlier point.";

std::atomic<int32_t> known_device_count{-1};

// A c10::DeviceIndex has 128 numbers.
std::array<std::atomic<tb_stream *>, 128> default_streams;

tb_stream *default_stream(int32_t device) {
  const bool cached = device >= 0 && device < static_cast<int32_t>(default_streams.size());
  if (cached) {
    tb_stream *known = default_streams[device].load(std::memory_order_relaxed);
    if (known) return known;
  }
  tb_stream *stream = components.stream.default_stream(device);
  if (!stream) raise(TB_OUT_OF_RANGE, "default_stream", device);
  if (cached) default_streams[device].store(stream, std::memory_order_relaxed);
  return stream;
}

// If only another component has opened the driver, the flag of tb-device (in_bad_fork) refuses the first use. A driver
// that was only asked for facts may be used by the child.
void after_fork_in_child() {
  if (!components.api || !*components.device.forked) return;
  readiness.store(Readiness::forked, std::memory_order_release);
  torch::utils::set_requires_device_init(device_type, true);
}

void on_shutdown(void *) { readiness.store(Readiness::closed, std::memory_order_release); }

[[noreturn]] void throw_why_not_initialized() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const std::string text = text_of_python_error(value, "torch_backend could not be initialized");
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

class PythonLock {
public:
  PythonLock() : state_(PyGILState_Ensure()) {}
  ~PythonLock() { PyGILState_Release(state_); }
  PythonLock(const PythonLock &) = delete;
  PythonLock &operator=(const PythonLock &) = delete;

private:
  PyGILState_STATE state_;
};

} // namespace

void drop_error() {
  tb_error error{};
  error.struct_size = sizeof error;
  components.device.take_error(&error);
}

bool connect_components() {
  constexpr const char *me = "torch-backend";
  auto &c = components;
  bool done =
      tb_import(me, "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 2, &c.device, sizeof c.device) &&
      tb_import(me, "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 2, &c.stream, sizeof c.stream) &&
      tb_import(me, "tb-allocator", "tb_allocator._core", TB_ALLOCATOR_API_MAJOR, 3, &c.allocator,
                sizeof c.allocator) &&
      tb_import(me, "tb-generator", "tb_generator._core", TB_GENERATOR_API_MAJOR, 0, &c.generator, sizeof c.generator);
  if (!done) return false;
  static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  if (registered != 0) {
    PyErr_SetString(PyExc_RuntimeError, "torch-backend could not register its fork handler: out of memory");
    return false;
  }
  return true;
}

void open_driver() {
  TORCH_CHECK(!in_bad_fork(), fork_text);
  const tb_driver_api *api = nullptr;
  tb_driver *driver = nullptr;
  check(components.device.driver(&api, &driver), "driver");
  int32_t count = 0;
  check(components.device.device_count(&count), "device_count");
  TORCH_CHECK(count > 0, "the tb driver is open but finds no device. `python -m torch_backend` shows what was tried; "
                         "TB_DRIVER=cpu selects the bundled CPU driver.");
  if (!components.api) check(components.device.on_shutdown(on_shutdown, nullptr), "on_shutdown");
  components.driver = driver;
  components.api = api;
  known_device_count.store(count);
}

void set_ready() {
  readiness.store(Readiness::ready, std::memory_order_release);
  torch::utils::set_requires_device_init(device_type, false);
}

bool in_bad_fork() noexcept {
  return readiness.load() == Readiness::forked || (components.device.forked && *components.device.forked);
}

c10::DeviceIndex device_count() noexcept {
  if (in_bad_fork() || !components.device.device_count) return 0;
  int32_t count = known_device_count.load(std::memory_order_relaxed);
  if (count < 0) {
    if (components.device.device_count(&count) != TB_OK) {
      drop_error(); // the first real use fails for the same reason and shows it
      count = 0;
    }
    known_device_count.store(count, std::memory_order_relaxed);
  }
  return static_cast<c10::DeviceIndex>(count < 127 ? count : 127);
}

void make_ready() {
  switch (readiness.load()) {
  case Readiness::ready:
    return;
  case Readiness::closed:
    TORCH_CHECK(false, closed_text);
  case Readiness::forked:
    TORCH_CHECK(false, fork_text);
  case Readiness::cold:
    break;
  }
  TORCH_CHECK(Py_IsInitialized(), closed_text);
  PythonLock lock;
  PyObject *state = PyImport_ImportModule("torch_backend._state");
  PyObject *done = state ? PyObject_CallMethod(state, "initialize", nullptr) : nullptr;
  Py_XDECREF(state);
  if (!done) throw_why_not_initialized();
  Py_DECREF(done);
}

c10::Stream to_c10(tb_stream *stream, int32_t device) {
  const c10::StreamId id =
      stream == default_stream(device) ? 0 : static_cast<c10::StreamId>(reinterpret_cast<intptr_t>(stream));
  return c10::Stream(c10::Stream::UNSAFE, make_device(device), id);
}

tb_stream *from_c10(const c10::Stream &stream) {
  TORCH_CHECK(stream.device_type() == device_type, "expected a stream of a tb device, but got one of ",
              stream.device());
  const int32_t device = resolve(stream.device());
  if (!stream.id()) return default_stream(device);
  auto *handle = reinterpret_cast<tb_stream *>(static_cast<intptr_t>(stream.id()));
  // A torch.Stream can be made of any number. After a fork and at the end of the process the driver's table refuses
  // all.
  if (readiness.load(std::memory_order_relaxed) != Readiness::ready) return handle;
  int32_t owner = -1;
  if (components.stream.device_of(handle, &owner) != TB_OK) [[unlikely]] {
    drop_error();
    TORCH_CHECK(false, "there is no stream with stream_id ", stream.id(), " on ", stream.device(),
                ": use a stream that torch.Stream(device=\"tb\") made or torch.accelerator.current_stream() gave");
  }
  TORCH_CHECK(owner == device, "the stream with stream_id ", stream.id(), " is one of ", make_device(owner),
              ", not of ", stream.device(), ": give device_index=", owner);
  return handle;
}

tb_stream *current_stream(int32_t device) {
  tb_stream *stream = components.stream.current(device);
  if (!stream) [[unlikely]]
    raise(TB_OUT_OF_RANGE, "current", device);
  return stream;
}

void raise_python_error() {
  const PythonLock lock;
  throw_python_error();
}

} // namespace tb::backend
