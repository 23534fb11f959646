// buffer_cuda.cpp -- CUDA's array interface, version 3.
#include "interop/buffer_cuda.h"

#include "interop/buffer_dlpack.h"
#include "python_errors.h"
#include "tb/dlpack.h"

namespace nb = nanobind;

namespace tb::allocator {
namespace {

constexpr uint64_t legacy_default_stream = 1; // the interface forbids 0, which could mean two streams

uint64_t native_of(const Driver &driver, const Storage &storage) {
  uint64_t native = 0;
  check(driver.api->stream_native(driver.self, storage.stream, &native), "stream_native", storage.device);
  return native ? native : legacy_default_stream;
}

} // namespace

// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
nb::dict cuda_array_interface(const Buffer &buffer) {
  const Storage &storage = *buffer.storage();
  if (dlpack_device(buffer).first != dlpack::type_cuda)
    throw nb::attribute_error("the buffer is not in a CUDA device's memory: use memoryview(), DLPack or tobytes()");
  Driver driver = require_driver();
  nb::dict out;
  out["shape"] = nb::make_tuple(storage.size);
  out["typestr"] = "|u1";
  out["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(storage.pointer), false);
  out["strides"] = nb::none();
  out["version"] = 3;
  if (driver.api->groups & TB_GROUP_NATIVE) {
    out["stream"] = native_of(driver, storage);
  } else { // there is no handle to order by, so the queued work must be done
    buffer.synchronize();
    out["stream"] = nb::none();
  }
  return out;
}

void copy_from_address(const Buffer &buffer, uintptr_t source, uintptr_t after) {
  const Storage &to = *buffer.storage();
  auto *from = reinterpret_cast<const void *>(source);
  Driver driver = require_driver();
  int32_t kind = TB_COPY_HOST_TO_DEVICE;
  if (driver.api->groups & TB_GROUP_PTR) {
    tb_pointer_info info{};
    info.struct_size = sizeof info;
    tb_status status = driver.api->mem_get_info(driver.self, from, &info);
    if (status == TB_OK && info.kind == TB_POINTER_DEVICE) kind = TB_COPY_DEVICE_TO_DEVICE;
  }
  tb_status status;
  {
    nb::gil_scoped_release released;
    tb_stream *stream = driver.api->groups & TB_GROUP_ASYNC ? to.stream : nullptr;
    status =
        after ? driver.api->stream_synchronize(driver.self, reinterpret_cast<tb_stream *>(after)) : tb_status{TB_OK};
    if (status == TB_OK) status = driver.api->mem_copy(driver.self, to.device, stream, to.pointer, from, to.size, kind);
    // The caller may free the source after the call.
    if (status == TB_OK) status = driver.api->stream_synchronize(driver.self, to.stream);
  }
  check_wait(status, "mem_copy", to.device);
}

} // namespace tb::allocator
