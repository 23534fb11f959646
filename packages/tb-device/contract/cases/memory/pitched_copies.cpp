// C2D: pitched copies.
#include "contract/support/probe.h"

namespace tb::contract::pitched_copies_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_COPY2D;

tb_copy_2d copy_of(int32_t kind, void *dst, uint64_t dst_pitch, const void *src, uint64_t src_pitch, uint64_t width,
                   uint64_t height) {
  tb_copy_2d copy{};
  copy.struct_size = sizeof copy;
  copy.kind = kind;
  copy.dst = dst;
  copy.src = src;
  copy.dst_pitch = dst_pitch;
  copy.src_pitch = src_pitch;
  copy.width = width;
  copy.height = height;
  return copy;
}

// What `dst` holds after the copy, by the rule; both begin as the given bytes.
std::vector<uint8_t> expected(std::vector<uint8_t> dst, const std::vector<uint8_t> &src, uint64_t dst_pitch,
                              uint64_t src_pitch, uint64_t width, uint64_t height) {
  for (uint64_t row = 0; row < height; ++row)
    for (uint64_t column = 0; column < width; ++column) dst[row * dst_pitch + column] = src[row * src_pitch + column];
  return dst;
}

std::vector<uint8_t> ramp(uint64_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 5 + 1);
  return bytes;
}

void check_copy(Kit &kit, int32_t kind, uint64_t dst_pitch, uint64_t src_pitch, uint64_t width, uint64_t height) {
  auto [api, self] = driver_of(kit);
  const std::vector<uint8_t> src = ramp(src_pitch * height), blank(dst_pitch * height + 8, 0xcd);
  Block on_device(kit, kind == TB_COPY_HOST_TO_DEVICE ? blank.size() : src.size()), second(kit, blank.size());
  std::vector<uint8_t> got = blank;
  tb_stream *stream = kit.default_stream();
  if (kind == TB_COPY_HOST_TO_DEVICE) {
    on_device.write(blank);
    const tb_copy_2d copy = copy_of(kind, on_device.data(), dst_pitch, src.data(), src_pitch, width, height);
    CHECK_OK(api.mem_copy_2d(self, 0, stream, &copy));
    kit.synchronize(stream);
    got = on_device.read();
  } else {
    on_device.write(src);
    second.write(blank);
    void *dst = kind == TB_COPY_DEVICE_TO_HOST ? got.data() : second.data();
    const tb_copy_2d copy = copy_of(kind, dst, dst_pitch, on_device.data(), src_pitch, width, height);
    CHECK_OK(api.mem_copy_2d(self, 0, stream, &copy));
    kit.synchronize(stream);
    if (kind == TB_COPY_DEVICE_TO_DEVICE) got = second.read();
  }
  CHECK(got == expected(blank, src, dst_pitch, src_pitch, width, height));
}

TB_CASE(C2D, 01, needs, "mem_copy_2d.1", "rows arrive and the bytes between them are untouched, in every direction") {
  for (const int32_t kind : {TB_COPY_HOST_TO_DEVICE, TB_COPY_DEVICE_TO_HOST, TB_COPY_DEVICE_TO_DEVICE}) {
    check_copy(kit, kind, 64, 64, 64, 10);   // no bytes between
    check_copy(kit, kind, 100, 64, 64, 10);  // between the rows of the destination
    check_copy(kit, kind, 64, 100, 64, 10);  // of the source
    check_copy(kit, kind, 257, 131, 61, 33); // odd everything
    check_copy(kit, kind, 4096, 512, 500, 40);
    check_copy(kit, kind, 7, 5, 1, 100);
    check_copy(kit, kind, 300, 300, 299, 1); // one row
  }
}

TB_CASE(C2D, 02, needs, "mem_copy_2d.2", "a pitch below the width is refused") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4096), to(kit, 4096);
  to.fill(2);
  tb_stream *stream = kit.default_stream();
  for (const auto &[dst_pitch, src_pitch] : {std::pair<uint64_t, uint64_t>{63, 64}, {64, 63}, {0, 64}, {64, 0}}) {
    const tb_copy_2d copy = copy_of(TB_COPY_DEVICE_TO_DEVICE, to.data(), dst_pitch, from.data(), src_pitch, 64, 4);
    CHECK_STATUS(api.mem_copy_2d(self, 0, stream, &copy), TB_INVALID_ARGUMENT);
  }
  for (const uint8_t byte : to.read()) CHECK_EQUAL(int(byte), 2);
}

TB_CASE(C2D, 03, needs, "mem_copy_2d.3", "width or height 0 copies nothing") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 1024), to(kit, 1024);
  from.fill(1);
  to.fill(3);
  tb_stream *stream = kit.default_stream();
  for (const auto &[width, height] : {std::pair<uint64_t, uint64_t>{0, 8}, {64, 0}, {0, 0}}) {
    const tb_copy_2d copy = copy_of(TB_COPY_DEVICE_TO_DEVICE, to.data(), 64, from.data(), 64, width, height);
    CHECK_OK(api.mem_copy_2d(self, 0, stream, &copy));
  }
  kit.synchronize(stream);
  for (const uint8_t byte : to.read()) CHECK_EQUAL(int(byte), 3);
}

TB_CASE(C2D, 04, needs | TB_GROUP_ASYNC, "mem_copy_2d.1 T5 stream_create.2",
        "a pitched copy is queued, in the order of its stream") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4096), to(kit, 4096);
  from.fill(1);
  to.fill(0);
  Stream stream(kit);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.mem_set(self, 0, stream, from.data(), 4, 1, 4096));
  {
    tb_copy_2d copy = copy_of(TB_COPY_DEVICE_TO_DEVICE, to.data(), 64, from.data(), 64, 32, 64);
    CHECK_OK(api.mem_copy_2d(self, 0, stream, &copy));
    copy = copy_of(0, nullptr, 0, nullptr, 0, 0, 0); // the description was taken during the call
  }
  CHECK_OK(api.mem_set(self, 0, stream, from.data(), 5, 1, 4096));
  CHECK(!rescue.opened());
  CHECK_EQUAL(int(to.read()[0]), 0);
  gate.open();
  stream.synchronize();
  const std::vector<uint8_t> got = to.read();
  for (size_t i = 0; i < got.size(); ++i) CHECK_EQUAL(int(got[i]), i % 64 < 32 ? 4 : 0);
}

TB_CASE(C2D, 05, needs, "mem_copy_2d.1 mem_copy.6", "an unknown kind of copy is refused") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 64), to(kit, 64);
  for (const int32_t kind : {0, 4, -1}) {
    const tb_copy_2d copy = copy_of(kind, to.data(), 8, from.data(), 8, 8, 8);
    CHECK_STATUS(api.mem_copy_2d(self, 0, kit.default_stream(), &copy), TB_INVALID_ARGUMENT);
  }
}

} // namespace
} // namespace tb::contract::pitched_copies_cases
