// callback.cpp -- queues calls of Python functions: as closures if the driver runs them, as host calls otherwise.
#include "python/callback.h"

#include <memory>

#include "capture.h"
#include "python_errors.h"

namespace nb = nanobind;

namespace tb::stream {
namespace {

class PythonLock {
public:
  PythonLock() : state_(PyGILState_Ensure()) {}
  ~PythonLock() { PyGILState_Release(state_); }
  PythonLock(const PythonLock &) = delete;

private:
  PyGILState_STATE state_;
};

// Its objects are used with the GIL held only. Once the interpreter has ended, nothing is called or released any more.
struct Callback {
  PyObject *function, *arguments;

  void run() const {
    if (!Py_IsInitialized()) return;
    const PythonLock lock;
    PyObject *result = PyObject_CallObject(function, arguments);
    if (!result) PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
  }
  void release() const {
    if (!Py_IsInitialized()) return;
    const PythonLock lock;
    Py_DECREF(function);
    Py_DECREF(arguments);
  }
};

// Called also behind a failure, like a host call: someone may wait for it.
constexpr tb_closure closure{sizeof(tb_closure), TB_CLOSURE_AFTER_FAILURE, "callback",
                             [](void *storage, const tb_closure_context *) -> tb_status {
                               static_cast<Callback *>(storage)->run();
                               return TB_OK;
                             },
                             [](void *storage) { static_cast<Callback *>(storage)->release(); }};

tb_status queue_closure(const Driver &driver, tb_stream *stream, const Callback &callback) {
  void *storage = nullptr;
  if (tb_status status = driver.api->closure_reserve(driver.self, stream, sizeof callback, &storage); status != TB_OK)
    return status;
  new (storage) Callback(callback);
  return driver.api->closure_commit(driver.self, stream, storage, &closure);
}

// A host call frees its Callback when it runs, so it must run once. A capture, whose replays would repeat it, is
// refused.
tb_status queue_host_call(const Driver &driver, const Stream &stream, const Callback &callback) {
  bool captured = false;
  if (tb_status status = capture_is_active(stream.handle, &captured); status != TB_OK) return status;
  if (captured)
    return fail(TB_UNSUPPORTED, stream.device, "add_callback",
                "the driver runs no closures, and its host calls cannot be repeated: call the function after replay()");
  auto own = std::make_unique<Callback>(callback);
  const auto call = [](void *user, tb_status) {
    const std::unique_ptr<Callback> given(static_cast<Callback *>(user));
    given->run();
    given->release();
  };
  const tb_status status = driver.api->stream_host_call(driver.self, stream.handle, call, own.get());
  if (status == TB_OK) (void)own.release();
  return status;
}

} // namespace

void add_callback(const Stream &stream, nb::object function, nb::tuple arguments) {
  if (!PyCallable_Check(function.ptr())) throw nb::type_error("add_callback: the first argument must be callable");
  const Driver driver = require_driver();
  const Callback callback{function.ptr(), arguments.ptr()};
  Py_INCREF(callback.function);
  Py_INCREF(callback.arguments);
  tb_status status;
  {
    nb::gil_scoped_release released; // a full queue makes the driver wait for room
    status = driver.api->groups & TB_GROUP_CLOSURE ? queue_closure(driver, stream.handle, callback)
                                                   : queue_host_call(driver, stream, callback);
  }
  if (status != TB_OK) callback.release();
  check(status, "add_callback", stream.device);
}

} // namespace tb::stream
