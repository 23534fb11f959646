// stream_handle.cpp -- converts arguments of Python calls to streams.
#include "python/stream_handle.h"

#include <nanobind/stl/pair.h>

#include <string_view>

#include "python_errors.h"
#include "streams.h"

namespace nb = nanobind;

namespace tb::stream {

int32_t device_or_current(std::optional<int32_t> device) {
  int32_t asked = device ? *device : host.current_device();
  tb_stream *stream = nullptr;
  check(find_default_stream(asked, &stream), "default_stream", asked);
  return asked;
}

Stream current_stream_of(std::optional<int32_t> device) {
  int32_t asked = device ? *device : host.current_device();
  tb_stream *stream = nullptr;
  check(find_current_stream(asked, &stream), "current_stream", asked);
  return {asked, stream};
}

Stream stream_of_native(uint64_t native, std::optional<int32_t> device) {
  Stream stream{device_or_current(device), nullptr};
  check(stream_from_native(stream.device, native, &stream.handle), "stream_wrap", stream.device);
  return stream;
}

bool is_cuda(const Driver &driver) {
  tb_driver_info info{};
  info.struct_size = sizeof info;
  return driver.api->get_info(driver.self, &info) == TB_OK && std::string_view(info.native) == "cuda";
}

Stream stream_argument(nb::handle object) {
  if (object.is_none()) return current_stream_of(std::nullopt);
  if (nb::isinstance<Stream>(object)) return nb::cast<Stream>(object);
  if (!nb::hasattr(object, "__tb_stream__")) {
    if (!nb::hasattr(object, "__cuda_stream__"))
      throw nb::type_error("expected a Stream, or an object with __tb_stream__() or __cuda_stream__()");
    if (!is_cuda(require_driver()))
      throw nb::type_error("the stream is one of CUDA (it has __cuda_stream__), and the open driver is not");
    auto [version, native] = nb::cast<std::pair<int, uint64_t>>(object.attr("__cuda_stream__")());
    if (version != protocol_version)
      throw nb::value_error("__cuda_stream__ gave a version that this tb-stream does not know: it speaks version 0");
    return stream_of_native(native, std::nullopt);
  }
  auto [version, handle] = nb::cast<std::pair<int, uintptr_t>>(object.attr("__tb_stream__")());
  if (version != protocol_version)
    throw nb::value_error("__tb_stream__ gave a version that this tb-stream does not know: it speaks version 0");
  Stream stream{-1, reinterpret_cast<tb_stream *>(handle)};
  check(stream_device(stream.handle, &stream.device), "__tb_stream__", -1);
  return stream;
}

} // namespace tb::stream
