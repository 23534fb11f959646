// The table's functions that move and fill bytes (CORE, COPY2D, PEER's copy).
//
// Two habits of the library are hidden here. A queued copy from or to memory that is not pinned is done before the call
// returns, whatever the stream still has to do: such copies wait for the stream and copy then. And the engine copies in
// no stated order, so that overlapping ranges go through a third place.
#include <algorithm>
#include <cstring>

#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {

// `size` bytes from there on stay in place while the device reads or writes them.
bool pinned(Driver &driver, const void *pointer, uint64_t size) {
  if (const auto range = driver.ranges.find(pointer))
    return range->kind != Ranges::Kind::device && range->holds(pointer, size);
  if (!driver.library.aclrtPointerGetAttributes) return false;
  // The library knows it as pinned, although this driver did not pin it.
  acl::PointerAttributes first = {}, last = {};
  driver.call(driver.library.aclrtPointerGetAttributes, pointer, &first);
  if (first.location.type != acl::location_host) return false;
  driver.call(driver.library.aclrtPointerGetAttributes,
              static_cast<const void *>(static_cast<const char *>(pointer) + size - 1), &last);
  return last.location.type == acl::location_host;
}

int32_t native_kind(int32_t kind) {
  switch (kind) {
  case TB_COPY_HOST_TO_DEVICE:
    return acl::host_to_device;
  case TB_COPY_DEVICE_TO_HOST:
    return acl::device_to_host;
  case TB_COPY_DEVICE_TO_DEVICE:
    return acl::device_to_device;
  }
  refuse(TB_INVALID_ARGUMENT, "copy kind %d is none of 1 (host to device), 2 (device to host), 3 (device to device)",
         kind);
}

void enqueue_copy(Driver &driver, Stream &stream, void *dst, const void *src, uint64_t size, int32_t kind) {
  driver.call(driver.library.aclrtMemcpyAsync, dst, size_t(size), src, size_t(size), kind, stream.native);
}

void copy_overlapping(Driver &driver, Stream &stream, void *dst, const void *src, uint64_t size) {
  const Scratch::Piece third = driver.scratch.device_block(stream.device, size);
  try {
    enqueue_copy(driver, stream, third.memory, src, size, acl::device_to_device);
    enqueue_copy(driver, stream, dst, third.memory, size, acl::device_to_device);
  } catch (...) {
    driver.library.aclrtSynchronizeStream(stream.native); // the first copy may be queued
    driver.scratch.give_back(third);
    throw;
  }
  driver.scratch.passes(third, stream.native);
}

// With the device bound.
void copy(Driver &driver, Stream &stream, void *dst, const void *src, uint64_t size, int32_t kind) {
  if (kind != acl::device_to_device) {
    if (pinned(driver, kind == acl::host_to_device ? src : dst, size))
      return enqueue_copy(driver, stream, dst, src, size, kind);
    driver.call(driver.library.aclrtSynchronizeStream, stream.native); // a failure before the copy stops it
    return driver.call(driver.library.aclrtMemcpy, dst, size_t(size), src, size_t(size), kind);
  }
  const uint64_t distance =
      static_cast<uint64_t>(std::max(static_cast<char *>(dst), static_cast<char *>(const_cast<void *>(src))) -
                            std::min(static_cast<char *>(dst), static_cast<char *>(const_cast<void *>(src))));
  if (distance == 0) return;
  if (distance < size) return copy_overlapping(driver, stream, dst, src, size);
  enqueue_copy(driver, stream, dst, src, size, kind);
}

// The library fills with one byte only: the pattern's first page comes from the host, the rest from what is there.
void fill_pattern(Driver &driver, Stream &stream, void *dst, uint32_t pattern, uint32_t width, uint64_t size) {
  Scratch::Piece page = driver.scratch.pinned_page(stream.device);
  uint64_t filled = std::min(size, Scratch::page_bytes);
  for (uint64_t at = 0; at < filled; at += width) std::memcpy(static_cast<char *>(page.memory) + at, &pattern, width);
  try {
    enqueue_copy(driver, stream, dst, page.memory, filled, acl::host_to_device);
  } catch (...) {
    driver.scratch.give_back(page);
    throw;
  }
  driver.scratch.passes(page, stream.native);
  for (; filled < size; filled += std::min(filled, size - filled))
    enqueue_copy(driver, stream, static_cast<char *>(dst) + filled, dst, std::min(filled, size - filled),
                 acl::device_to_device);
}

} // namespace

namespace slots {

tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *handle, void *dst, const void *src, uint64_t size,
                   int32_t kind) {
  return with(self, [&](Driver &driver) {
    Stream &stream = driver.need_stream(device, handle);
    const int32_t native = native_kind(kind);
    if (size == 0) return;
    driver.need(dst, "dst");
    driver.need(src, "src");
    const Bound bound = driver.bind(device);
    copy(driver, stream, dst, src, size, native);
  });
}

tb_status mem_set(tb_driver *self, int32_t device, tb_stream *handle, void *dst, uint32_t pattern,
                  uint32_t pattern_size, uint64_t count) {
  return with(self, [&](Driver &driver) {
    Stream &stream = driver.need_stream(device, handle);
    if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)
      refuse(TB_INVALID_ARGUMENT, "pattern_size %u is none of 1, 2, 4", pattern_size);
    if (count == 0) return;
    driver.need(dst, "dst");
    if (count > UINT64_MAX / 8) refuse(TB_INVALID_ARGUMENT, "the range has no end");
    const uint64_t size = count * pattern_size;
    const Bound bound = driver.bind(device);
    uint8_t bytes[4];
    std::memcpy(bytes, &pattern, sizeof bytes);
    const bool uniform = std::all_of(bytes, bytes + pattern_size, [&](uint8_t byte) { return byte == bytes[0]; });
    if (uniform)
      return driver.call(driver.library.aclrtMemsetAsync, dst, size_t(size), int32_t(bytes[0]), size_t(size),
                         stream.native);
    fill_pattern(driver, stream, dst, pattern, pattern_size, size);
  });
}

tb_status mem_copy_2d(tb_driver *self, int32_t device, tb_stream *handle, const tb_copy_2d *description) {
  return with(self, [&](Driver &driver) {
    Stream &stream = driver.need_stream(device, handle);
    driver.need(description, "copy");
    const tb_copy_2d c = *description;
    const int32_t kind = native_kind(c.kind);
    if (c.width == 0 || c.height == 0) return;
    driver.need(c.dst, "dst");
    driver.need(c.src, "src");
    if (c.height > 1 && (c.dst_pitch < c.width || c.src_pitch < c.width))
      refuse(TB_INVALID_ARGUMENT, "rows of %llu bytes overlap: the pitches are %llu (dst) and %llu (src)",
             static_cast<unsigned long long>(c.width), static_cast<unsigned long long>(c.dst_pitch),
             static_cast<unsigned long long>(c.src_pitch));
    const Bound bound = driver.bind(device);
    const bool to_device = kind == acl::host_to_device;
    const uint64_t host_size = (c.height - 1) * (to_device ? c.src_pitch : c.dst_pitch) + c.width;
    // Between host and device only.
    if (kind != acl::device_to_device && pinned(driver, to_device ? c.src : c.dst, host_size))
      return driver.call(driver.library.aclrtMemcpy2dAsync, c.dst, size_t(std::max(c.dst_pitch, c.width)), c.src,
                         size_t(std::max(c.src_pitch, c.width)), size_t(c.width), size_t(c.height), kind,
                         stream.native);
    for (uint64_t row = 0; row < c.height; ++row)
      copy(driver, stream, static_cast<char *>(c.dst) + row * c.dst_pitch,
           static_cast<const char *>(c.src) + row * c.src_pitch, c.width, kind);
  });
}

tb_status peer_copy(tb_driver *self, tb_stream *handle, void *dst, int32_t dst_device, const void *src,
                    int32_t src_device, uint64_t size) {
  return with(self, [&](Driver &driver) {
    driver.need_device(dst_device);
    driver.need_device(src_device);
    driver.need(handle, "stream");
    Stream &stream = *Stream::of(handle);
    if (stream.device != dst_device && stream.device != src_device)
      refuse(TB_INVALID_ARGUMENT, "the stream belongs to device %d, to none of devices %d and %d", stream.device,
             dst_device, src_device);
    if (size == 0) return;
    driver.need(dst, "dst");
    driver.need(src, "src");
    if (dst_device != src_device) {
      driver.connect(dst_device, src_device);
      driver.connect(src_device, dst_device);
    }
    const Bound bound = driver.bind(stream.device);
    copy(driver, stream, dst, src, size, acl::device_to_device);
  });
}

} // namespace slots
} // namespace tb::drivers::npu
