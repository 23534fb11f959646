// The table's copies and sets (CORE, COPY2D, PEER).
#include <cstring>

#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

CUdeviceptr address_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// CUDA's copies within a device do not allow overlap: through a third place (mem_copy.5).
tb_status copy_overlapping(Driver &driver, Stream &stream, void *dst, const void *src, uint64_t size) {
  const Api &api = driver.api;
  Device &device = stream.device;
  if (driver.is_capturing(stream))
    return fail(driver.host, TB_UNSUPPORTED,
                "the CUDA driver captures no copy between overlapping ranges: copy through memory of your own");
  CUdeviceptr third = 0;
  const bool ordered = (driver.groups & TB_GROUP_SOA) != 0;
  tb_status status =
      driver.report(device, ordered ? api.cuMemAllocAsync(&third, size, stream.native) : api.cuMemAlloc(&third, size),
                    "allocating the third place of an overlapping copy");
  if (status) return status;
  status =
      driver.report(device, api.cuMemcpyDtoDAsync(third, address_of(src), size, stream.native), "cuMemcpyDtoDAsync");
  if (status == TB_OK)
    status =
        driver.report(device, api.cuMemcpyDtoDAsync(address_of(dst), third, size, stream.native), "cuMemcpyDtoDAsync");
  if (!ordered) { // nothing else says when the copies are done
    const CUresult waited = driver.has_async() ? api.cuStreamSynchronize(stream.native) : api.cuCtxSynchronize();
    if (status == TB_OK) status = driver.report(device, waited, "waiting for an overlapping copy");
  }
  const CUresult freed = ordered ? api.cuMemFreeAsync(third, stream.native) : api.cuMemFree(third);
  return status ? status : driver.report(device, freed, "freeing the third place of an overlapping copy");
}

bool overlap(const void *dst, const void *src, uint64_t size) {
  const CUdeviceptr to = address_of(dst), from = address_of(src);
  return to < from + size && from < to + size;
}

tb_status copy(Driver &driver, Stream &stream, void *dst, const void *src, uint64_t size, int32_t kind) {
  const Api &api = driver.api;
  switch (kind) {
  case TB_COPY_HOST_TO_DEVICE:
    return driver.report(stream.device, api.cuMemcpyHtoDAsync(address_of(dst), src, size, stream.native),
                         "cuMemcpyHtoDAsync");
  case TB_COPY_DEVICE_TO_HOST:
    return driver.report(stream.device, api.cuMemcpyDtoHAsync(dst, address_of(src), size, stream.native),
                         "cuMemcpyDtoHAsync");
  default:
    if (overlap(dst, src, size)) return dst == src ? TB_OK : copy_overlapping(driver, stream, dst, src, size);
    return driver.report(stream.device, api.cuMemcpyDtoDAsync(address_of(dst), address_of(src), size, stream.native),
                         "cuMemcpyDtoDAsync");
  }
}

tb_status check_kind(const Driver &driver, int32_t kind) {
  if (kind >= TB_COPY_HOST_TO_DEVICE && kind <= TB_COPY_DEVICE_TO_DEVICE) return TB_OK;
  return fail(driver.host, TB_INVALID_ARGUMENT, "there is no kind %d of copies; TB_COPY_* are 1, 2 and 3", kind);
}

tb_status set_aligned(Driver &driver, Stream &stream, CUdeviceptr address, uint32_t pattern, uint32_t width,
                      uint64_t count) {
  const Api &api = driver.api;
  const CUresult result =
      width == 1   ? api.cuMemsetD8Async(address, static_cast<unsigned char>(pattern), count, stream.native)
      : width == 2 ? api.cuMemsetD16Async(address, static_cast<uint16_t>(pattern), count, stream.native)
                   : api.cuMemsetD32Async(address, pattern, count, stream.native);
  return driver.report(stream.device, result,
                       width == 1   ? "cuMemsetD8Async"
                       : width == 2 ? "cuMemsetD16Async"
                                    : "cuMemsetD32Async");
}

// CUDA sets wider values at multiples of their size only. Elsewhere the pattern with its bytes turned is set between the
// first and the last such multiple, and the bytes before and behind it are set one by one.
tb_status set_unaligned(Driver &driver, Stream &stream, CUdeviceptr address, uint32_t pattern, uint32_t width,
                        uint64_t count) {
  const auto behind = static_cast<uint32_t>(address % width), before = width - behind;
  const uint64_t end = address + count * width;
  uint8_t bytes[4], turned_bytes[4] = {};
  std::memcpy(bytes, &pattern, sizeof bytes);
  for (uint32_t i = 0; i < width; ++i) turned_bytes[i] = bytes[(before + i) % width];
  uint32_t turned;
  std::memcpy(&turned, turned_bytes, sizeof turned);
  for (uint32_t i = 0; i < before; ++i)
    if (const tb_status status = set_aligned(driver, stream, address + i, bytes[i], 1, 1)) return status;
  if (count > 1)
    if (const tb_status status = set_aligned(driver, stream, address + before, turned, width, count - 1)) return status;
  for (uint32_t i = 0; i < behind; ++i)
    if (const tb_status status = set_aligned(driver, stream, end - behind + i, bytes[before + i], 1, 1)) return status;
  return TB_OK;
}

tb_status set(Driver &driver, Stream &stream, void *dst, uint32_t pattern, uint32_t width, uint64_t count) {
  const CUdeviceptr address = address_of(dst);
  if (address % width == 0) return set_aligned(driver, stream, address, pattern, width, count);
  const uint32_t repeated = (pattern & 0xff) * 0x01010101u;
  const bool equal_bytes = ((pattern ^ repeated) & (width == 2 ? 0xffffu : 0xffffffffu)) == 0;
  return equal_bytes ? set_aligned(driver, stream, address, pattern, 1, count * width)
                     : set_unaligned(driver, stream, address, pattern, width, count);
}

} // namespace

namespace slots {

tb_status mem_copy(tb_driver *self, int32_t number, tb_stream *handle, void *dst, const void *src, uint64_t size,
                   int32_t kind) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.working_stream(number, handle, &status);
    if (!stream) return status;
    if ((status = check_kind(driver, kind)) || size == 0) return status;
    if ((status = driver.require(dst, "dst"))) return status;
    if ((status = driver.require(src, "src"))) return status;
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    if ((status = copy(driver, *stream, dst, src, size, kind))) return status;
    return driver.finish(stream->device);
  });
}

tb_status mem_set(tb_driver *self, int32_t number, tb_stream *handle, void *dst, uint32_t pattern,
                  uint32_t pattern_size, uint64_t count) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.working_stream(number, handle, &status);
    if (!stream) return status;
    if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)
      return fail(driver.host, TB_INVALID_ARGUMENT, "pattern_size is %u; accepted are 1, 2 and 4", pattern_size);
    if (count == 0) return TB_OK;
    if ((status = driver.require(dst, "dst"))) return status;
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    if ((status = set(driver, *stream, dst, pattern, pattern_size, count))) return status;
    return driver.finish(stream->device);
  });
}

tb_status mem_copy_2d(tb_driver *self, int32_t number, tb_stream *handle, const tb_copy_2d *asked) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.working_stream(number, handle, &status);
    if (!stream) return status;
    if ((status = driver.require(asked, "copy"))) return status;
    if ((status = check_kind(driver, asked->kind))) return status;
    if (asked->width == 0 || asked->height == 0) return TB_OK;
    if (asked->dst_pitch < asked->width || asked->src_pitch < asked->width)
      return fail(driver.host, TB_INVALID_ARGUMENT, "a pitch (%llu, %llu) is below the width of %llu bytes",
                  static_cast<unsigned long long>(asked->dst_pitch), static_cast<unsigned long long>(asked->src_pitch),
                  static_cast<unsigned long long>(asked->width));
    if ((status = driver.require(asked->dst, "dst"))) return status;
    if ((status = driver.require(asked->src, "src"))) return status;
    CUDA_MEMCPY2D copy = {};
    copy.src_memory_type = asked->kind == TB_COPY_HOST_TO_DEVICE ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dst_memory_type = asked->kind == TB_COPY_DEVICE_TO_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.src_host = asked->src;
    copy.src_device = address_of(asked->src);
    copy.dst_host = asked->dst;
    copy.dst_device = address_of(asked->dst);
    copy.src_pitch = asked->src_pitch;
    copy.dst_pitch = asked->dst_pitch;
    copy.width_in_bytes = asked->width;
    copy.height = asked->height;
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    status = driver.report(stream->device, driver.api.cuMemcpy2DAsync(&copy, stream->native), "cuMemcpy2DAsync");
    return status ? status : driver.finish(stream->device);
  });
}

tb_status peer_can_access(tb_driver *self, int32_t number, int32_t peer_number, int32_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status), *peer = device ? driver.device(peer_number, &status) : nullptr;
    if (!peer) return status;
    if ((status = driver.require(out, "out"))) return status;
    int can = 0;
    if (device != peer &&
        (status = driver.report(*device, driver.api.cuDeviceCanAccessPeer(&can, device->native, peer->native),
                                "cuDeviceCanAccessPeer")))
      return status;
    *out = can != 0;
    return TB_OK;
  });
}

} // namespace slots

namespace {

// One direction of a pair: `act` works on the peer's context while the device's is current.
tb_status change_peer(Driver &driver, int32_t number, int32_t peer_number, CUresult (*act)(const Api &, CUcontext),
                      const char *name) {
  tb_status status = TB_OK;
  Device *device = driver.usable(number, &status), *peer = device ? driver.usable(peer_number, &status) : nullptr;
  if (!peer) return status;
  if (device == peer)
    return fail(driver.host, TB_INVALID_ARGUMENT, "device %d is no peer of itself: its memory is its own", number);
  const Current other(driver, *peer); // makes its context
  if (other.status) return other.status;
  const Current current(driver, *device);
  if (current.status) return current.status;
  return driver.report(*device, act(driver.api, peer->context), name);
}

} // namespace

namespace slots {

tb_status peer_enable(tb_driver *self, int32_t device, int32_t peer) {
  return with(self, [&](Driver &driver) {
    return change_peer(
        driver, device, peer, [](const Api &api, CUcontext context) { return api.cuCtxEnablePeerAccess(context, 0); },
        "cuCtxEnablePeerAccess");
  });
}

tb_status peer_disable(tb_driver *self, int32_t device, int32_t peer) {
  return with(self, [&](Driver &driver) {
    return change_peer(
        driver, device, peer, [](const Api &api, CUcontext context) { return api.cuCtxDisablePeerAccess(context); },
        "cuCtxDisablePeerAccess");
  });
}

tb_status peer_copy(tb_driver *self, tb_stream *handle, void *dst, int32_t dst_number, const void *src,
                    int32_t src_number, uint64_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *to = driver.usable(dst_number, &status), *from = to ? driver.usable(src_number, &status) : nullptr;
    if (!from) return status;
    Stream *stream = &to->stream;
    if ((driver.has_async() || handle) && !(stream = driver.usable_object<Stream>(handle, "stream", &status)))
      return status;
    if (size == 0) return TB_OK;
    if ((status = driver.require(dst, "dst"))) return status;
    if ((status = driver.require(src, "src"))) return status;
    const Current first(driver, *to);
    const Current second(driver, *from);
    const Current current(driver, stream->device); // both have a context now
    for (const tb_status made : {first.status, second.status, current.status})
      if (made) return made;
    status = driver.report(stream->device,
                           driver.api.cuMemcpyPeerAsync(address_of(dst), to->context, address_of(src), from->context,
                                                        size, stream->native),
                           "cuMemcpyPeerAsync");
    return status ? status : driver.finish(stream->device);
  });
}

} // namespace slots
} // namespace tb::drivers::cuda
