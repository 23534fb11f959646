// buffer.cpp -- allocating buffers, and the stream that Python gives.
#include "buffers/buffer.h"

#include <nanobind/stl/pair.h>

#include "heap/device_heaps.h"
#include "python_errors.h"
#include "table/table.h"

namespace nb = nanobind;

namespace tb::allocator {

static constexpr int protocol_version = 0; // of __tb_stream__

tb_stream *stream_argument(nb::handle object, int32_t *device) {
  bool asked = *device >= 0;
  if (!asked) *device = host.current_device();
  if (object.is_none()) {
    if (!streams.struct_size) return nullptr; // the heap's default stream
    tb_stream *stream = streams.current(*device);
    if (!stream) {
      tb_error error{};
      error.struct_size = sizeof error;
      const bool known = host.take_error(&error);
      raise(known ? error.status : TB_OUT_OF_RANGE, "current_stream", *device, error.text);
    }
    return stream;
  }
  uintptr_t handle = 0;
  if (nb::isinstance<nb::int_>(object)) {
    handle = nb::cast<uintptr_t>(object);
  } else if (nb::hasattr(object, "__tb_stream__")) {
    auto [version, address] = nb::cast<std::pair<int, uintptr_t>>(object.attr("__tb_stream__")());
    if (version != protocol_version)
      throw nb::value_error("__tb_stream__ gave a version that this tb-allocator does not know: it speaks version 0");
    handle = address;
  } else {
    throw nb::type_error("expected a stream: an object with __tb_stream__(), or the address of a tb_stream");
  }
  auto *stream = reinterpret_cast<tb_stream *>(handle);
  if (stream && host.is_stream && !host.is_stream(stream))
    raise(TB_INVALID_ARGUMENT, "stream", *device,
          "there is no stream at that address: give a tb_stream.Stream, or the handle of one that lives");
  int32_t owner = -1;
  if (stream && streams.struct_size && streams.device_of(stream, &owner) == TB_OK) {
    if (asked && owner != *device)
      raise(TB_INVALID_ARGUMENT, "allocate", *device, "the stream belongs to another device: give one of this device");
    *device = owner;
  }
  return stream;
}

Storage::~Storage() {
  if (block) allocator_table.deallocate(block);
}

const std::shared_ptr<Storage> &Buffer::storage() const {
  if (!storage_) throw nb::value_error("the buffer was freed: make a new one with tb_allocator.empty()");
  return storage_;
}

bool Buffer::host_accessible() const {
  const Storage &storage = *this->storage();
  if (storage.pinned()) return true;
  tb_device_info info{};
  info.struct_size = sizeof info;
  check(host.device_info(storage.device, &info), "device_info", storage.device);
  return (info.flags & TB_DEVICE_HOST_ACCESSIBLE) != 0;
}

void Buffer::synchronize() const {
  std::shared_ptr<Storage> storage = this->storage();
  if (storage->pinned() || !storage->pointer) return;
  Driver driver = require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = driver.api->stream_synchronize(driver.self, storage->stream);
  }
  check_wait(status, "stream_synchronize", storage->device);
}

std::shared_ptr<Storage> allocate_storage(uint64_t size, std::optional<int32_t> device, nb::handle stream, Heap *heap) {
  auto storage = std::make_shared<Storage>();
  storage->size = size;
  int32_t asked = device ? *device : -1;
  if (device && asked < 0) raise(TB_OUT_OF_RANGE, "allocate", asked, "devices are counted from 0");
  Driver driver = require_driver();
  storage->stream = stream_argument(stream, &asked);
  storage->device = asked;
  tb_status status = TB_OK;
  {
    nb::gil_scoped_release released; // running out of memory waits for the device
    if (!storage->stream) status = driver.api->stream_default(driver.self, asked, &storage->stream);
    if (status == TB_OK && !heap)
      status = allocator_table.allocate(asked, size, storage->stream, &storage->pointer, &storage->block);
    if (status == TB_OK && heap)
      status = guarded(asked, "allocate",
                       [&] { return heap->allocate(size, storage->stream, &storage->pointer, &storage->block); });
  }
  check(status, "allocate", asked);
  return storage;
}

std::shared_ptr<Storage> allocate_pinned(uint64_t size) {
  auto storage = std::make_shared<Storage>();
  storage->size = size;
  require_driver();
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = allocator_table.host_allocate(size, &storage->pointer, &storage->block);
  }
  check(status, "host_allocate", -1);
  return storage;
}

} // namespace tb::allocator
