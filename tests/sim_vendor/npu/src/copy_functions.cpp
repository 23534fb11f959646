// copy_functions.cpp -- synchronous and queued copies and fills.
#include <cstring>
#include <vector>

#include "entry.h"
#include "functions.h"
#include "machine.h"

namespace sim {
namespace {

struct Side {
  explicit Side(const void *pointer) : place(Machine::get().memory().place(pointer, &device)) {}
  int32_t device = 0;
  Place place;
};

bool peers(int32_t device, int32_t peer) {
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.peers_mutex);
  return machine.peers.count((int64_t(device) << 32) | peer) > 0;
}

Error check(const void *dst, size_t room, const void *src, size_t size, int32_t kind, const Side &to,
            const Side &from) {
  if (!dst || !src || size == 0) return fail(kParameter, "EE1060: a copy of nothing");
  if (size > room) return fail(kParameter, "EE1061: %zu bytes do not fit in %zu", size, room);
  if (kind < 0 || kind >= kCopyKinds) return fail(kParameter, "EE1062: unknown kind of copy %d", kind);
  const bool across = to.place == Place::device && from.place == Place::device && to.device != from.device;
  if (across && !peers(to.device, from.device) && !peers(from.device, to.device))
    return fail(kParameter, "EE1063: devices %d and %d are no peers", to.device, from.device);
  return kOk;
}

// The engine copies pieces out of order, so that copies between overlapping ranges give wrong results.
Error copy(void *dst, const void *src, size_t size) {
  Memory &memory = Machine::get().memory();
  constexpr size_t kPiece = 4096;
  const size_t pieces = (size + kPiece - 1) / kPiece;
  std::vector<uint8_t> buffer(kPiece);
  for (const size_t first : {size_t(0), size_t(1)})
    for (size_t piece = first; piece < pieces; piece += 2) {
      const size_t at = piece * kPiece, part = size - at < kPiece ? size - at : kPiece;
      uint8_t *end = buffer.data();
      const auto read = [&](const uint8_t *bytes, uint64_t count) {
        std::memcpy(end, bytes, count);
        end += count;
      };
      if (const Error error = memory.access(static_cast<const uint8_t *>(src) + at, part, read)) return error;
      const uint8_t *start = buffer.data();
      const auto write = [&](uint8_t *bytes, uint64_t count) {
        std::memcpy(bytes, start, count);
        start += count;
      };
      if (const Error error = memory.access(static_cast<uint8_t *>(dst) + at, part, write)) return error;
    }
  return kOk;
}

Error fill(void *dst, int32_t byte, size_t size) {
  return Machine::get().memory().access(dst, size,
                                        [byte](uint8_t *bytes, uint64_t count) { std::memset(bytes, byte, count); });
}

Error check_fill(const void *dst, size_t room, size_t size) {
  if (!dst || size == 0 || size > room) return fail(kParameter, "EE1064: a fill of %zu bytes in %zu", size, room);
  if (Side(dst).place == Place::pageable) return fail(kParameter, "EE1065: %p is not the library's memory", dst);
  return kOk;
}

} // namespace

// Does not wait for streams, so work that was queued before may run after it.
Error aclrtMemcpy(void *dst, size_t room, const void *src, size_t size, int32_t kind) {
  if (const Error error = check(dst, room, src, size, kind, Side(dst), Side(src))) return error;
  return copy(dst, src, size);
}

Error aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t size, int32_t kind, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  const Side to(dst), from(src);
  if (const Error error = check(dst, room, src, size, kind, to, from)) return error;
  if (to.place != Place::device && from.place != Place::device)
    return fail(kUnsupported, "EE1066: queued copies are never from host to host");
  // Pageable memory is copied before the call returns, without waiting for the stream's earlier work.
  if (to.place == Place::pageable || from.place == Place::pageable) return copy(dst, src, size);
  stream->enqueue([dst, src, size] { return copy(dst, src, size); });
  return kOk;
}

Error aclrtMemcpy2dAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                         int32_t kind, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  const Side to(dst), from(src);
  if (const Error error = check(dst, width, src, width, kind, to, from)) return error;
  if (width > dst_pitch || width > src_pitch || height == 0) return fail(kParameter, "EE1067: rows overlap");
  if ((to.place == Place::device) == (from.place == Place::device))
    return fail(kUnsupported, "EE1068: pitched copies are between host and device only");
  const auto rows = [=]() -> Error {
    for (size_t row = 0; row < height; ++row)
      if (const Error error = copy(static_cast<uint8_t *>(dst) + row * dst_pitch,
                                   static_cast<const uint8_t *>(src) + row * src_pitch, width))
        return error;
    return kOk;
  };
  if (to.place == Place::pageable || from.place == Place::pageable) return rows();
  stream->enqueue(rows);
  return kOk;
}

Error aclrtMemset(void *dst, size_t room, int32_t byte, size_t size) {
  if (const Error error = check_fill(dst, room, size)) return error;
  return fill(dst, byte, size);
}

Error aclrtMemsetAsync(void *dst, size_t room, int32_t byte, size_t size, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  if (const Error error = check_fill(dst, room, size)) return error;
  stream->enqueue([=] { return fill(dst, byte, size); });
  return kOk;
}

} // namespace sim
