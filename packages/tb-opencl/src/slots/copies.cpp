// Copies and fills, on one device and between those of a context, which share its memory.
#include <cstring>
#include <span>

#include "driver/driver.h"
#include "opencl/failure.h"
#include "slots/streams.h"

namespace tb::opencl {
namespace {

struct ThirdPlace {
  Memory *memory;
  void *block;
};

void free_third_place(cl_event, cl_int, void *given) {
  auto *place = static_cast<ThirdPlace *>(given);
  place->memory->free_own(place->block);
  delete place;
}

cl_int enqueue(tb_driver *self, tb_stream *stream, const Transfer &one, cl_event *out) {
  if (one.src) return self->memory.copy(stream->queue, false, one.dst, one.src, one.size, out);
  return self->memory.fill(stream->queue, one.dst, one.pattern, one.unit, one.size, out);
}

// OpenCL refuses ranges that overlap.
cl_int copy_by_third_place(tb_driver *self, tb_stream *stream, const Transfer &one, cl_event *out) {
  void *between = self->memory.allocate_own(stream->device, one.size, false);
  if (!between) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  auto place = std::make_unique<ThirdPlace>(ThirdPlace{&self->memory, between});
  cl_int code = self->memory.copy(stream->queue, false, between, one.src, one.size, nullptr);
  if (code == CL_SUCCESS) code = self->memory.copy(stream->queue, false, one.dst, between, one.size, out);
  if (code == CL_SUCCESS &&
      self->cl.clSetEventCallback(*out, CL_COMPLETE, free_third_place, place.get()) == CL_SUCCESS) {
    place.release();
  } else {
    self->cl.clFinish(stream->queue);
    self->memory.free_own(between);
  }
  return code;
}

// The same for a node. False: no memory.
bool capture_by_third_place(tb_driver *self, tb_stream *stream, const Transfer &one, Node *node) {
  void *between = self->memory.allocate_own(stream->device, one.size, false);
  if (!between) return false;
  node->blocks.emplace_back(between, [self](void *block) { self->memory.free_own(block); });
  node->transfers.push_back({between, one.src, one.size, 0, {}});
  node->transfers.push_back({one.dst, between, one.size, 0, {}});
  return true;
}

// Queues the transfers of one call, or captures them as one node.
tb_status queue(tb_driver *self, tb_stream *stream, Node::Kind kind, std::span<const Transfer> transfers) {
  if (stream->captures) {
    Node node{kind, {}, {}, {}};
    for (const Transfer &one : transfers)
      if (!one.overlaps())
        node.transfers.push_back(one);
      else if (!capture_by_third_place(self, stream, one, &node))
        return self->failed(CL_MEM_OBJECT_ALLOCATION_FAILURE, "capturing a copy");
    if (self->captures.add(stream, std::move(node))) return TB_OK;
  }
  const std::lock_guard lock(stream->mutex);
  for (const Transfer &one : transfers) {
    cl_event event = nullptr;
    const cl_int code =
        one.overlaps() ? copy_by_third_place(self, stream, one, &event) : enqueue(self, stream, one, &event);
    if (code != CL_SUCCESS) return self->failed(code, one.src ? "queueing a copy" : "queueing a fill");
    stream->note(self->cl, event);
  }
  return TB_OK;
}

tb_status queue_copy(tb_driver *self, tb_stream *stream, void *dst, const void *src, uint64_t size) {
  if (size == 0 || dst == src) return TB_OK;
  const Transfer copy{dst, src, size, 0, {}};
  return queue(self, stream, Node::Kind::copy, {&copy, 1});
}

tb_status check_stream(tb_driver *self, int32_t device, tb_stream *stream) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (stream->device == device) return TB_OK;
  return fail(self->host, TB_INVALID_ARGUMENT, 0, "the stream is one of device %d, and the device is %d",
              stream->device, device);
}

tb_status check_kind(tb_driver *self, int32_t kind) {
  if (kind >= TB_COPY_HOST_TO_DEVICE && kind <= TB_COPY_DEVICE_TO_DEVICE) return TB_OK;
  return fail(self->host, TB_INVALID_ARGUMENT, 0, "%d is no kind of copy (TB_COPY_*)", kind);
}

tb_status check_pair(tb_driver *self, int32_t device, int32_t peer) {
  if (const tb_status status = self->check_device(device)) return status;
  return self->check_device(peer);
}

tb_status switch_peer(tb_driver *self, int32_t device, int32_t peer, bool on) {
  if (const tb_status status = check_pair(self, device, peer)) return status;
  if (device == peer) return fail(self->host, TB_INVALID_ARGUMENT, 0, "a device is no peer of itself");
  const std::lock_guard lock(self->mutex);
  uint8_t &state = self->peers[static_cast<size_t>(device) * self->devices.size() + static_cast<size_t>(peer)];
  if (state == on)
    return fail(self->host, on ? TB_ALREADY_EXISTS : TB_FAILED_PRECONDITION, 0, "access of device %d to %d is %s",
                device, peer, on ? "enabled already" : "not enabled");
  state = on;
  return TB_OK;
}

} // namespace

tb_status mem_copy(tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                   int32_t kind) {
  if (const tb_status status = check_stream(self, device, stream)) return status;
  if (const tb_status status = check_kind(self, kind)) return status;
  return queue_copy(self, stream, dst, src, size);
}

tb_status mem_copy_2d(tb_driver *self, int32_t device, tb_stream *stream, const tb_copy_2d *copy) {
  if (const tb_status status = check_stream(self, device, stream)) return status;
  if (const tb_status status = self->check(copy, "copy")) return status;
  if (const tb_status status = check_kind(self, copy->kind)) return status;
  if (copy->width == 0 || copy->height == 0) return TB_OK;
  if (copy->dst_pitch < copy->width || copy->src_pitch < copy->width)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "a pitch is below the width of %llu bytes",
                static_cast<unsigned long long>(copy->width));
  if (copy->dst_pitch == copy->width && copy->src_pitch == copy->width)
    return queue_copy(self, stream, copy->dst, copy->src, copy->width * copy->height);
  // OpenCL copies rectangles between buffers only, not between pointers.
  const auto *src = static_cast<const char *>(copy->src);
  auto *dst = static_cast<char *>(copy->dst);
  std::vector<Transfer> rows;
  for (uint64_t row = 0; row < copy->height; ++row)
    rows.push_back({dst + row * copy->dst_pitch, src + row * copy->src_pitch, copy->width, 0, {}});
  return queue(self, stream, Node::Kind::copy, rows);
}

tb_status mem_set(tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t width,
                  uint64_t count) {
  if (const tb_status status = check_stream(self, device, stream)) return status;
  if (width != 1 && width != 2 && width != 4)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "a pattern has 1, 2 or 4 bytes, not %u", width);
  unsigned char bytes[4];
  std::memcpy(bytes, &pattern, sizeof bytes);
  auto *at = static_cast<unsigned char *>(dst), *const end = at + width * count;
  unsigned phase = 0; // of the pattern, at `at`
  Transfer fills[7];
  size_t count_of_fills = 0;
  const auto fill = [&](uint64_t size, unsigned unit) {
    Transfer &one = fills[count_of_fills++];
    one = {at, nullptr, size, unit, {}};
    for (unsigned i = 0; i < unit; ++i) one.pattern[i] = bytes[(phase + i) % width];
    at += size, phase = static_cast<unsigned>((phase + size) % width);
  };
  // The address of a fill is a multiple of its pattern's size, so single bytes are written at both ends.
  while (at < end && reinterpret_cast<uintptr_t>(at) % width) fill(1, 1);
  const uint64_t whole = static_cast<uint64_t>(end - at) / width * width;
  if (whole) fill(whole, width);
  while (at < end) fill(1, 1);
  return queue(self, stream, Node::Kind::fill, {fills, count_of_fills});
}

tb_status peer_can_access(tb_driver *self, int32_t device, int32_t peer, int32_t *out) {
  if (const tb_status status = check_pair(self, device, peer)) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  *out = device != peer;
  return TB_OK;
}

tb_status peer_enable(tb_driver *self, int32_t device, int32_t peer) { return switch_peer(self, device, peer, true); }
tb_status peer_disable(tb_driver *self, int32_t device, int32_t peer) { return switch_peer(self, device, peer, false); }

tb_status peer_copy(tb_driver *self, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                    int32_t src_device, uint64_t size) {
  if (const tb_status status = check_pair(self, dst_device, src_device)) return status;
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (stream->device != dst_device && stream->device != src_device)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "the stream is one of device %d, which has neither range",
                stream->device);
  return queue_copy(self, stream, dst, src, size);
}

} // namespace tb::opencl
