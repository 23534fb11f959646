// buffer.cpp -- tb_allocator.Buffer, its buffer protocol and its copies.
#include "python/buffer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <string>

#include "buffers/buffer.h"
#include "interop/buffer_cuda.h"
#include "interop/buffer_dlpack.h"
#include "python_errors.h"
#include "table/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::allocator {
namespace {

// The stream for mem_copy: NULL where the driver has no streams.
tb_stream *copy_stream(const Driver &driver, const Storage &storage) {
  return driver.api->groups & TB_GROUP_ASYNC ? storage.stream : nullptr;
}

std::string sizes_differ(uint64_t given, uint64_t size) {
  return "the buffer has " + std::to_string(size) + " bytes, but " + std::to_string(given) +
         " were given: give as many";
}

void copy_from(const Buffer &buffer, nb::handle source) {
  Py_buffer view;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const Storage &to = *buffer.storage();
  Driver driver = require_driver();
  tb_status status = TB_OK;
  auto given = static_cast<uint64_t>(view.len);
  if (given == to.size) {
    nb::gil_scoped_release released;
    if (to.pinned()) {
      memcpy(to.pointer, view.buf, given);
    } else {
      tb_stream *stream = copy_stream(driver, to);
      status =
          driver.api->mem_copy(driver.self, to.device, stream, to.pointer, view.buf, given, TB_COPY_HOST_TO_DEVICE);
      // The caller may free the source after the call.
      if (status == TB_OK) status = driver.api->stream_synchronize(driver.self, to.stream);
    }
  }
  PyBuffer_Release(&view);
  if (given != to.size) throw nb::value_error(sizes_differ(given, to.size).c_str());
  check_wait(status, "mem_copy", to.device);
}

nb::bytes to_bytes(const Buffer &buffer) {
  std::shared_ptr<Storage> from = buffer.storage();
  nb::object out = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(from->size)));
  if (!out.is_valid()) throw nb::python_error();
  char *bytes = PyBytes_AsString(out.ptr());
  Driver driver = require_driver();
  tb_status status = TB_OK;
  {
    nb::gil_scoped_release released;
    if (from->pinned()) {
      memcpy(bytes, from->pointer, from->size);
    } else {
      status = driver.api->mem_copy(driver.self, from->device, copy_stream(driver, *from), bytes, from->pointer,
                                    from->size, TB_COPY_DEVICE_TO_HOST);
      if (status == TB_OK) status = driver.api->stream_synchronize(driver.self, from->stream);
    }
  }
  check_wait(status, "mem_copy", from->device);
  return nb::borrow<nb::bytes>(out);
}

int get_buffer(PyObject *self, Py_buffer *view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const Buffer &buffer = nb::cast<const Buffer &>(nb::handle(self));
    const std::shared_ptr<Storage> &storage = buffer.storage();
    if (!buffer.host_accessible()) {
      PyErr_SetString(PyExc_BufferError, "the host cannot reach this device memory: use tobytes() and copy_from()");
      return -1;
    }
    buffer.synchronize();
    auto keep = std::make_unique<std::shared_ptr<Storage>>(storage);
    static char nothing; // some consumers treat NULL as an error
    void *pointer = storage->pointer ? storage->pointer : &nothing;
    if (PyBuffer_FillInfo(view, self, pointer, static_cast<Py_ssize_t>(storage->size), /*readonly=*/0, flags) != 0)
      return -1;
    view->internal = keep.release();
    return 0;
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

void release_buffer(PyObject *, Py_buffer *view) noexcept {
  delete static_cast<std::shared_ptr<Storage> *>(view->internal);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void *>(release_buffer)},
                              {0, nullptr}};

nb::object device_of(const Buffer &buffer) {
  const Storage &storage = *buffer.storage();
  return storage.pinned() ? nb::none() : nb::cast(storage.device);
}

nb::str repr(const Buffer &buffer) {
  if (buffer.freed()) return nb::str("<tb_allocator.Buffer, freed>");
  const Storage &storage = *buffer.storage();
  return nb::str("<tb_allocator.Buffer of {} bytes at {:#x}, {}>")
      .format(storage.size, reinterpret_cast<uintptr_t>(storage.pointer),
              storage.pinned() ? nb::str("pinned host memory") : nb::str("device {}").format(storage.device));
}

} // namespace

void bind_buffer(nb::module_ &m) {
  nb::class_<Buffer>(
      m, "Buffer", nb::type_slots(buffer_slots),
      "Bytes of a device, or of pinned host memory, made by empty() and pinned().\n\n"
      "Where the host can reach them, memoryview(buffer) and DLPack share the bytes without a copy, after\n"
      "waiting for the buffer's own stream; they keep the memory alive, also after free(). Work that\n"
      "other streams do on the buffer needs record_stream().")
      .def_prop_ro(
          "ptr", [](const Buffer &self) { return reinterpret_cast<uintptr_t>(self.storage()->pointer); },
          "Address of the first byte; 0 for no bytes.")
      .def_prop_ro(
          "nbytes", [](const Buffer &self) { return self.storage()->size; }, "Size in bytes.")
      .def_prop_ro("device", &device_of, nb::sig("def device(self) -> int | None"),
                   "Number of the device; None for pinned host memory.")
      .def_prop_ro(
          "stream", [](const Buffer &self) { return reinterpret_cast<uintptr_t>(self.storage()->stream); },
          "Address of the tb_stream it was allocated for: that stream may use it at once, and after free() too. 0 for "
          "pinned memory.")
      .def_prop_ro("freed", &Buffer::freed, "Whether free() was called.")
      .def(
          "record_stream",
          [](const Buffer &self, nb::handle stream) {
            const Storage &storage = *self.storage();
            int32_t any_device = -1;
            tb_stream *used = stream_argument(stream, &any_device);
            check(allocator_table.record_stream(storage.block, used), "record_stream", storage.device);
          },
          "stream"_a,
          "`stream` uses the buffer too: after free() it is not used again before the work queued there by then is "
          "done.")
      .def("free", &Buffer::free,
           "Give the memory back now, for reuse in stream order; exports keep it until they end. Twice is fine.")
      .def("tobytes", &to_bytes, "A copy of the bytes, in the order of the buffer's stream.")
      .def("copy_from", &copy_from, "source"_a, nb::sig("def copy_from(self, source: object) -> None"),
           "Overwrite all bytes with those of `source`, which has the buffer protocol, in the order of the buffer's "
           "stream. ValueError unless the sizes "
           "are equal.")
      .def("__dlpack__", &export_dlpack, nb::kw_only(), "stream"_a.none() = nb::none(),
           "max_version"_a.none() = nb::none(), "dl_device"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object"),
           "A DLPack capsule of nbytes unsigned bytes: versioned if max_version allows, else in the legacy form.\n\n"
           "Waits for the buffer's own stream, unless stream is -1; on CUDA the stream given waits, not the host. "
           "BufferError "
           "if dl_device cannot be served.")
      .def("__dlpack_device__", &dlpack_device, "(DLPack's device type, device number).")
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, object]"),
                   "The bytes as CuPy, Numba and others take them, version 3, with the buffer's stream. AttributeError "
                   "where the "
                   "memory is not CUDA's.")
      .def("_copy_from_address", &copy_from_address, "source"_a, "after"_a = 0)
      .def("__len__", [](const Buffer &self) { return self.storage()->size; })
      .def(
          "__enter__", [](nb::handle_t<Buffer> self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> tb_allocator.Buffer"))
      .def(
          "__exit__", [](Buffer &self, nb::args) { self.free(); }, "exception"_a,
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def("__reduce__",
           [](const Buffer &) -> nb::object {
             throw nb::type_error("a Buffer is memory of this process and cannot be pickled: pickle its tobytes()");
           })
      .def("__repr__", &repr);

  m.def(
      "empty",
      [](uint64_t nbytes, std::optional<int32_t> device, nb::handle stream) {
        return Buffer(allocate_storage(nbytes, device, stream));
      },
      "nbytes"_a, "device"_a = nb::none(), "stream"_a.none() = nb::none(),
      // A bare "Buffer" would become that of typing_extensions in the stub.
      nb::sig("def empty(nbytes: int, device: int | None = None, stream: object | None = None) -> tb_allocator.Buffer"),
      "A Buffer of `nbytes` bytes with any content, for work on `stream`.\n\n"
      "device: number, by default the current one. stream: an object with __tb_stream__() or the address of a\n"
      "tb_stream; by default the current stream (the device's default one where tb-stream is not installed). Raises\n"
      "tb_device.OutOfMemoryError with the figures.");
  m.def(
      "pinned", [](uint64_t nbytes) { return Buffer(allocate_pinned(nbytes)); }, "nbytes"_a,
      nb::sig("def pinned(nbytes: int) -> tb_allocator.Buffer"),
      "A Buffer of `nbytes` bytes of pinned host memory, which devices copy from and to without waiting.\n\n"
      "Use record_stream() for each stream that copies. Raises tb_device.OutOfMemoryError.");
}

} // namespace tb::allocator
