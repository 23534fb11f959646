// Emulates pitched copies by a loop, and copies between devices by staging through the host.
#include <algorithm>
#include <new>

#include "emulation/emulation.h"
#include "host/errors.h"
#include "host/host.h"

namespace tb::device {
namespace {

tb_status mem_copy_2d(tb_driver *self, int32_t device, tb_stream *stream, const tb_copy_2d *copy) {
  Driver &driver = driver_of(self);
  const tb_copy_2d &c = *copy;
  if (c.width == 0 || c.height == 0) return check_device(driver, device, Slot::mem_copy_2d);
  if (c.height > 1 && (c.width > c.dst_pitch || c.width > c.src_pitch))
    return fail(TB_INVALID_ARGUMENT, device, driver.name.c_str(), "mem_copy_2d",
                "rows of %llu bytes overlap: the pitches are %llu (dst) and %llu (src)",
                static_cast<unsigned long long>(c.width), static_cast<unsigned long long>(c.dst_pitch),
                static_cast<unsigned long long>(c.src_pitch));
  const tb_driver_api &table = driver.table;
  if (c.width == c.dst_pitch && c.width == c.src_pitch)
    return table.mem_copy(self, device, stream, c.dst, c.src, c.width * c.height, c.kind);
  auto *dst = static_cast<char *>(c.dst);
  auto *src = static_cast<const char *>(c.src);
  for (uint64_t row = 0; row < c.height; ++row, dst += c.dst_pitch, src += c.src_pitch)
    if (tb_status status = table.mem_copy(self, device, stream, dst, src, c.width, c.kind)) return status;
  return TB_OK;
}

tb_status check_pair(tb_driver *self, int32_t device, int32_t peer, Slot slot) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, slot)) return status;
  return check_device(driver, peer, slot);
}

tb_status peer_can_access(tb_driver *self, int32_t device, int32_t peer, int32_t *out) {
  if (tb_status status = check_pair(self, device, peer, Slot::peer_can_access)) return status;
  *out = 0;
  return TB_OK;
}

// A separate stream, so that a staged copy waits for nothing else.
class StagingStream {
public:
  StagingStream(Driver &driver, int32_t device) : driver_(driver) {
    status = driver.table.stream_create(driver.self, device, 0, 0, &stream);
  }
  ~StagingStream() {
    if (stream && driver_.table.stream_destroy(driver_.self, stream) != TB_OK) log_leak();
  }
  StagingStream(const StagingStream &) = delete;
  tb_status copy(int32_t device, void *dst, const void *src, uint64_t size, int32_t kind) {
    if (status == TB_OK) status = driver_.table.mem_copy(driver_.self, device, stream, dst, src, size, kind);
    if (status == TB_OK) status = driver_.table.stream_synchronize(driver_.self, stream);
    return status;
  }
  tb_stream *stream = nullptr;
  tb_status status = TB_OK;

private:
  void log_leak() const;
  Driver &driver_;
};

void StagingStream::log_leak() const {
  Failure failure = Failure::take(TB_UNKNOWN, driver_.name.c_str(), "stream_destroy", -1);
  log(Level::warning, failure.message().c_str());
}

constexpr uint64_t staging_bytes = uint64_t{4} << 20; // large enough to hide the cost of a call, small beside any data

// Blocks until the bytes are there, which a driver's own peer_copy does not: later work on the stream is ordered after
// it, earlier work was waited for.
tb_status peer_copy(tb_driver *self, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                    int32_t src_device, uint64_t size) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_pair(self, dst_device, src_device, Slot::peer_copy)) return status;
  const tb_driver_api &table = driver.table;
  if (dst_device == src_device)
    return table.mem_copy(self, dst_device, stream, dst, src, size, TB_COPY_DEVICE_TO_DEVICE);
  if (size == 0) return TB_OK;
  if (tb_status status = table.stream_synchronize(self, stream)) return status;
  uint64_t chunk = std::min(size, staging_bytes);
  std::unique_ptr<char[]> stage(new (std::nothrow) char[chunk]);
  if (!stage)
    return fail(TB_OUT_OF_MEMORY, src_device, driver.name.c_str(), "peer_copy",
                "no %llu bytes of host memory to stage the copy", static_cast<unsigned long long>(chunk));
  StagingStream from(driver, src_device), to(driver, dst_device);
  for (uint64_t at = 0; at < size; at += chunk) {
    uint64_t part = std::min(chunk, size - at);
    const char *source = static_cast<const char *>(src) + at;
    char *target = static_cast<char *>(dst) + at;
    if (tb_status status = from.copy(src_device, stage.get(), source, part, TB_COPY_DEVICE_TO_HOST)) return status;
    if (tb_status status = to.copy(dst_device, target, stage.get(), part, TB_COPY_HOST_TO_DEVICE)) return status;
  }
  return TB_OK;
}

} // namespace

void emulate_copies(Driver &driver) {
  tb_driver_api &table = driver.table;
  if (!table.mem_copy_2d) table.mem_copy_2d = mem_copy_2d;
  if (!table.peer_can_access) table.peer_can_access = peer_can_access;
  if (!table.peer_copy) table.peer_copy = peer_copy;
}

} // namespace tb::device
