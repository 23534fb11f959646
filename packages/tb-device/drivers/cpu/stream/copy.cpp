// Runs copies, fills and host calls.
#include "drivers/cpu/stream/copy.h"

#include <algorithm>
#include <cstring>

#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

tb_status CopyWork::run(const tb_closure_context *) {
  std::memmove(dst, src, size);
  return TB_OK;
}

tb_status FillWork::run(const tb_closure_context *) {
  auto *bytes = static_cast<unsigned char *>(dst);
  unsigned char unit[4];
  std::memcpy(unit, &pattern, sizeof unit); // little endian: the low bytes come first
  if (std::all_of(unit, unit + pattern_size, [&](unsigned char byte) { return byte == unit[0]; })) {
    std::memset(bytes, unit[0], count * pattern_size);
    return TB_OK;
  }
  // A line of patterns at a time, with no demand on dst's alignment.
  unsigned char line[256];
  for (size_t place = 0; place < sizeof line; ++place) line[place] = unit[place % pattern_size];
  uint64_t left = count * pattern_size;
  for (; left >= sizeof line; left -= sizeof line, bytes += sizeof line) std::memcpy(bytes, line, sizeof line);
  std::memcpy(bytes, line, left);
  return TB_OK;
}

tb_status Copy2dWork::run(const tb_closure_context *) {
  auto *dst = static_cast<unsigned char *>(copy.dst);
  const auto *src = static_cast<const unsigned char *>(copy.src);
  for (uint64_t row = 0; row < copy.height; ++row)
    std::memmove(dst + row * copy.dst_pitch, src + row * copy.src_pitch, copy.width);
  return TB_OK;
}

tb_status HostCallWork::run(const tb_closure_context *context) {
  const auto failure = Stream::of(context->stream)->failures().peek(UINT64_MAX);
  function(user, failure ? failure->status : TB_OK);
  return TB_OK;
}

} // namespace tb::drivers::cpu
