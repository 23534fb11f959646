// buffer_dlpack.cpp -- DLPack capsules of both forms, and the waits between streams.
#include "interop/buffer_dlpack.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstring>
#include <memory>

#include "interop/foreign.h"
#include "python_errors.h"
#include "table/table.h"
#include "tb/dlpack.h"

namespace nb = nanobind;

namespace tb::allocator {
namespace {

constexpr int64_t no_synchronisation = -1; // of __dlpack__'s stream

// Consumers may call the deleter from any thread, without Python's lock.
template <class Form> struct Export {
  Form managed{};
  int64_t shape = 0, stride = 1;
  std::shared_ptr<Storage> storage;

  static void destroy(Form *self) { delete static_cast<Export *>(self->context); }
  static void destroy_capsule(PyObject *capsule) {
    // A consumer that takes the memory renames the capsule.
    if (!PyCapsule_IsValid(capsule, Form::name)) return;
    auto *managed = static_cast<Form *>(PyCapsule_GetPointer(capsule, Form::name));
    managed->deleter(managed);
  }
};

template <class Form> nb::object make_capsule(std::shared_ptr<Storage> storage, dlpack::Device device, bool copied) {
  auto made = std::make_unique<Export<Form>>();
  made->shape = static_cast<int64_t>(storage->size);
  made->managed.tensor = {storage->pointer, device, 1, dlpack::uint8, &made->shape, &made->stride, 0};
  made->managed.context = made.get();
  made->managed.deleter = Export<Form>::destroy;
  if constexpr (std::is_same_v<Form, dlpack::ManagedVersioned>) {
    made->managed.major = 1;
    made->managed.minor = 0;
    made->managed.flags = copied ? dlpack::flag_is_copied : 0;
  }
  made->storage = std::move(storage);
  nb::object capsule = nb::steal(PyCapsule_New(&made->managed, Form::name, Export<Form>::destroy_capsule));
  if (!capsule.is_valid()) throw nb::python_error();
  made.release();
  return capsule;
}

std::shared_ptr<Storage> copy_of(const Buffer &buffer) {
  const std::shared_ptr<Storage> &from = buffer.storage();
  if (from->pinned()) {
    std::shared_ptr<Storage> to = allocate_pinned(from->size);
    memcpy(to->pointer, from->pointer, from->size);
    return to;
  }
  std::shared_ptr<Storage> to =
      allocate_storage(from->size, from->device, nb::int_(reinterpret_cast<uintptr_t>(from->stream)));
  Driver driver = require_driver();
  tb_stream *stream = driver.api->groups & TB_GROUP_ASYNC ? from->stream : nullptr;
  check(driver.api->mem_copy(driver.self, from->device, stream, to->pointer, from->pointer, from->size,
                             TB_COPY_DEVICE_TO_DEVICE),
        "mem_copy", from->device);
  return to;
}

// Makes a CUDA stream wait for the buffer's stream, and the memory, once freed, wait for that CUDA stream. Returns
// false if that is not possible.
bool consumer_waits(const Storage &storage, uint64_t native) {
  Driver driver = require_driver();
  constexpr uint64_t needed = TB_GROUP_ASYNC | TB_GROUP_NATIVE;
  tb_stream *consumer = nullptr;
  if ((driver.api->groups & needed) != needed || !storage.block) return false;
  if (foreign_stream(storage.device, native, &consumer) != TB_OK) return false;
  if (consumer == storage.stream) return true;
  tb_event *event = nullptr;
  if (driver.api->event_create(driver.self, storage.device, 0, &event) != TB_OK) return false;
  tb_status status = driver.api->event_record(driver.self, event, storage.stream);
  if (status == TB_OK) status = driver.api->stream_wait_event(driver.self, consumer, event);
  driver.api->event_destroy(driver.self, event);
  return status == TB_OK && allocator_table.record_stream(storage.block, consumer) == TB_OK;
}

[[noreturn]] void refuse(const char *text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

} // namespace

std::pair<int32_t, int32_t> dlpack_device(const Buffer &buffer) {
  const Storage &storage = *buffer.storage();
  if (storage.pinned()) return {dlpack::type_cpu, 0};
  Driver driver = require_driver();
  tb_driver_info info{};
  info.struct_size = sizeof info;
  check(driver.api->get_info(driver.self, &info), "get_info", storage.device);
  // The host's memory is one device to DLPack, even if the driver has several devices there.
  return {info.dlpack_type, info.dlpack_type == dlpack::type_cpu ? 0 : storage.device};
}

nb::object export_dlpack(const Buffer &buffer, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                         std::optional<bool> copy) {
  auto [type, id] = dlpack_device(buffer);
  if (!dl_device.is_none()) {
    auto asked = nb::cast<std::pair<int32_t, int32_t>>(dl_device);
    if (asked == std::pair<int32_t, int32_t>(dlpack::type_cpu, 0) && buffer.host_accessible())
      std::tie(type, id) = asked;
    else if (asked != std::pair(type, id))
      refuse("the buffer cannot be shared with that device without a copy: use tobytes() for the host");
  }
  int64_t consumer = stream.is_none() ? 0 : nb::cast<int64_t>(stream);
  if (type == dlpack::type_cpu && !stream.is_none() && consumer != no_synchronisation)
    throw nb::value_error("the host has no streams: stream must be None");
  bool copied = copy.value_or(false);
  std::shared_ptr<Storage> storage = copied ? copy_of(buffer) : buffer.storage();
  if (type == dlpack::type_cuda && !stream.is_none() && consumer == 0)
    throw nb::value_error("stream 0 of CUDA could mean two streams: give 1, the legacy default, or 2, the thread's");
  const bool wanted = copied || consumer != no_synchronisation;
  const uint64_t native = consumer > 0 ? static_cast<uint64_t>(consumer) : 1; // None: the legacy default stream
  // Where no stream can wait, the host does, which is correct for every consumer.
  if (wanted && !(type == dlpack::type_cuda && !copied && consumer_waits(*storage, native))) buffer.synchronize();
  bool versioned = !max_version.is_none() && nb::cast<std::pair<int, int>>(max_version).first >= 1;
  dlpack::Device device{type, id};
  return versioned ? make_capsule<dlpack::ManagedVersioned>(std::move(storage), device, copied)
                   : make_capsule<dlpack::Managed>(std::move(storage), device, copied);
}

} // namespace tb::allocator
