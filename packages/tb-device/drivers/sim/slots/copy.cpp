// The table's functions that copy and set memory (CORE, COPY2D, PEER's copy).
#include "drivers/sim/driver.h"

namespace tb::drivers::sim {

namespace {

unsigned long long number_of(uint64_t value) { return value; }

// One side of a copy. `device`: that uses it; `by_name`: it may be used without peer access.
tb_status check_side(Driver &driver, const char *function, const char *name, const void *address, uint64_t size,
                     Side side, int32_t device, bool by_name) {
  const std::string problem = driver.memory.check(address, size, side);
  if (!problem.empty()) return fail(driver.host, TB_INVALID_ARGUMENT, "%s, %s: %s", function, name, problem.c_str());
  if (side == Side::host) return TB_OK;
  const int32_t owner = driver.memory.device_of(reinterpret_cast<uintptr_t>(address));
  if (owner < 0 || owner == device || (!by_name && driver.reaches(device, owner))) return TB_OK;
  return fail(driver.host, TB_INVALID_ARGUMENT,
              by_name ? "%s, %s: %p belongs to device %d, not to device %d"
                      : "%s, %s: %p belongs to device %d, which device %d cannot reach: use peer_copy or peer_enable",
              function, name, address, owner, device);
}

bool fits_address(uint64_t pitch, uint64_t width, uint64_t height) {
  return height == 1 || pitch <= (UINT64_MAX - width) / (height - 1);
}

tb_status enqueue_copy(Driver &driver, const std::shared_ptr<Stream> &stream, const char *name, const tb_copy_2d &copy,
                       int32_t dst_device, int32_t src_device, bool by_name) {
  tb_status status = TB_OK;
  if ((status = driver.require(copy.dst, "dst"))) return status;
  if ((status = driver.require(copy.src, "src"))) return status;
  const uint64_t dst_size = (copy.height - 1) * copy.dst_pitch + copy.width;
  const uint64_t src_size = (copy.height - 1) * copy.src_pitch + copy.width;
  const Side dst_side = copy.kind == TB_COPY_DEVICE_TO_HOST ? Side::host : Side::device;
  const Side src_side = copy.kind == TB_COPY_HOST_TO_DEVICE ? Side::host : Side::device;
  if ((status = check_side(driver, name, "dst", copy.dst, dst_size, dst_side, dst_device, by_name))) return status;
  if ((status = check_side(driver, name, "src", copy.src, src_size, src_side, src_device, by_name))) return status;
  return driver.enqueue<CopyOperation>(stream, name, copy, dst_device, src_device);
}

tb_status check_kind(Driver &driver, int32_t kind) {
  if (kind >= TB_COPY_HOST_TO_DEVICE && kind <= TB_COPY_DEVICE_TO_DEVICE) return TB_OK;
  return fail(driver.host, TB_INVALID_ARGUMENT,
              "copy kind %d is none of 1 (host to device), 2 (device to host), 3 (device to device)", kind);
}

tb_copy_2d one_row(void *dst, const void *src, uint64_t size, int32_t kind) {
  return {sizeof(tb_copy_2d), kind, dst, src, size, size, size, 1};
}

} // namespace

namespace slots {

tb_status mem_copy(tb_driver *self, int32_t number, tb_stream *handle, void *dst, const void *src, uint64_t size,
                   int32_t kind) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(number, handle, &status);
    if (!stream) return status;
    if ((status = check_kind(driver, kind)) || size == 0) return status;
    return enqueue_copy(driver, stream, "mem_copy", one_row(dst, src, size, kind), number, number, false);
  });
}

tb_status mem_copy_2d(tb_driver *self, int32_t number, tb_stream *handle, const tb_copy_2d *copy) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(number, handle, &status);
    if (!stream) return status;
    if ((status = driver.require(copy, "copy"))) return status;
    if (copy->struct_size < sizeof *copy)
      return fail(driver.host, TB_INVALID_ARGUMENT, "tb_copy_2d.struct_size is %u, but its fields take %zu",
                  copy->struct_size, sizeof *copy);
    if ((status = check_kind(driver, copy->kind)) || copy->width == 0 || copy->height == 0) return status;
    const tb_copy_2d &c = *copy;
    if (c.height > 1 && (c.dst_pitch < c.width || c.src_pitch < c.width))
      return fail(driver.host, TB_INVALID_ARGUMENT, "rows of %llu bytes overlap: the pitches are %llu and %llu",
                  number_of(c.width), number_of(c.dst_pitch), number_of(c.src_pitch));
    if (!fits_address(c.dst_pitch, c.width, c.height) || !fits_address(c.src_pitch, c.width, c.height))
      return fail(driver.host, TB_INVALID_ARGUMENT, "%llu rows are more than an address can hold", number_of(c.height));
    return enqueue_copy(driver, stream, "mem_copy_2d", c, number, number, false);
  });
}

tb_status mem_set(tb_driver *self, int32_t number, tb_stream *handle, void *dst, uint32_t pattern,
                  uint32_t pattern_size, uint64_t count) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(number, handle, &status);
    if (!stream) return status;
    if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)
      return fail(driver.host, TB_INVALID_ARGUMENT, "pattern_size %u is none of 1, 2, 4", pattern_size);
    if (count == 0) return TB_OK;
    if (count > UINT64_MAX / pattern_size)
      return fail(driver.host, TB_INVALID_ARGUMENT, "%llu patterns of %u bytes are more than an address can hold",
                  number_of(count), pattern_size);
    if ((status = driver.require(dst, "dst"))) return status;
    if ((status = check_side(driver, "mem_set", "dst", dst, count * pattern_size, Side::device, number, false)))
      return status;
    return driver.enqueue<SetOperation>(stream, dst, pattern, pattern_size, count);
  });
}

tb_status peer_copy(tb_driver *self, tb_stream *handle, void *dst, int32_t dst_number, const void *src,
                    int32_t src_number, uint64_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(dst_number, &status) || !driver.usable(src_number, &status)) return status;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    const int32_t owner = stream->queue->device.number;
    if (owner != dst_number && owner != src_number)
      return fail(driver.host, TB_INVALID_ARGUMENT, "the stream belongs to device %d, which is neither %d nor %d",
                  owner, dst_number, src_number);
    if (size == 0) return TB_OK;
    const tb_copy_2d copy = one_row(dst, src, size, TB_COPY_DEVICE_TO_DEVICE);
    return enqueue_copy(driver, stream, "peer_copy", copy, dst_number, src_number, true);
  });
}

} // namespace slots
} // namespace tb::drivers::sim
