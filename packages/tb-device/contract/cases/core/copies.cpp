// Cases about copies and sets of the group CORE.
#include <cstring>

#include "contract/kit.h"

namespace tb::contract::copies_cases {
namespace {

// Bytes that differ from their neighbours and from those a power of two away.
std::vector<uint8_t> pattern(uint64_t size, uint64_t seed = 1) {
  std::vector<uint8_t> bytes(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (uint8_t &byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return bytes;
}

void copy(Kit &kit, void *dst, const void *src, uint64_t size, int32_t kind) {
  CHECK_OK(kit.api().mem_copy(kit.self(), 0, kit.default_stream(), dst, src, size, kind));
}

} // namespace

TB_CASE(CPY, 01, TB_GROUP_CORE, "mem_copy.1 mem_copy.3", "bytes of any size come back as they were sent") {
  for (const uint64_t size : {0, 1, 255, 256, 4097, 65537, (16 << 20) + 3}) {
    kit::Block block(kit, size);
    const std::vector<uint8_t> sent = pattern(size, kit.target().seed);
    block.write(sent);
    CHECK(block.read() == sent);
  }
}

TB_CASE(CPY, 02, TB_GROUP_CORE, "mem_copy.3 mem_copy.4", "every byte alignment of both sides, and no byte beyond") {
  constexpr uint64_t size = 100, room = 256;
  const std::vector<uint8_t> source = pattern(room);
  kit::Block from(kit, room), to(kit, room);
  from.write(source);
  for (uint64_t left = 0; left < 16; ++left)
    for (uint64_t right = 0; right < 16; ++right) {
      to.fill(0xC3);
      copy(kit, to.data() + left, from.data() + right, size, TB_COPY_DEVICE_TO_DEVICE);
      std::vector<uint8_t> want(room, 0xC3);
      memcpy(want.data() + left, source.data() + right, size);
      CHECK(to.read() == want);
    }
  for (uint64_t left = 0; left < 16; ++left) {
    to.fill(0xC3);
    copy(kit, to.data() + left, source.data() + 15 - left, size, TB_COPY_HOST_TO_DEVICE);
    std::vector<uint8_t> want(room, 0xC3), back(room, 0xD4);
    memcpy(want.data() + left, source.data() + 15 - left, size);
    copy(kit, back.data() + 7, to.data() + left, size, TB_COPY_DEVICE_TO_HOST);
    CHECK(to.read() == want);
    std::vector<uint8_t> want_back(room, 0xD4);
    memcpy(want_back.data() + 7, want.data() + left, size);
    CHECK(back == want_back);
  }
}

TB_CASE(CPY, 03, TB_GROUP_CORE, "mem_copy.3", "bytes are copied within a device") {
  for (const uint64_t size : {1, 4096, 1 << 20}) {
    kit::Block from(kit, size), to(kit, size);
    const std::vector<uint8_t> sent = pattern(size);
    from.write(sent);
    to.fill(0);
    copy(kit, to.data(), from.data(), size, TB_COPY_DEVICE_TO_DEVICE);
    CHECK(to.read() == sent);
    CHECK(from.read() == sent);
  }
}

TB_CASE(CPY, 04, TB_GROUP_CORE, "mem_copy.5", "overlapping ranges copy as if through a third place") {
  constexpr uint64_t size = 100000;
  const std::vector<uint8_t> source = pattern(size);
  kit::Block block(kit, size);
  for (const int64_t distance : {1, 8, 63, 4096, -1, -8, -63, -4096}) {
    block.write(source);
    const uint64_t step = static_cast<uint64_t>(distance < 0 ? -distance : distance), moved = size - step;
    uint8_t *const low = block.data(), *const high = block.data() + step;
    copy(kit, distance < 0 ? low : high, distance < 0 ? high : low, moved, TB_COPY_DEVICE_TO_DEVICE);
    std::vector<uint8_t> want = source;
    memmove(want.data() + (distance < 0 ? 0 : step), want.data() + (distance < 0 ? step : 0), moved);
    CHECK(block.read() == want);
  }
}

TB_CASE(CPY, 05, TB_GROUP_CORE, "mem_set.1", "patterns of 1, 2 and 4 bytes, any number of times") {
  constexpr uint32_t value = 0xA1B2C3D4;
  for (const uint32_t width : {1, 2, 4})
    for (const uint64_t count : {1, 3, 255, 1001, 70000}) {
      kit::Block block(kit, width * count);
      CHECK_OK(kit.api().mem_set(kit.self(), 0, kit.default_stream(), block.data(), value, width, count));
      std::vector<uint8_t> want(width * count);
      for (uint64_t i = 0; i < count; ++i) memcpy(want.data() + i * width, &value, width); // both little-endian
      CHECK(block.read() == want);
    }
}

TB_CASE(CPY, 06, TB_GROUP_CORE, "mem_set.3", "a set touches no neighbour, and count 0 nothing") {
  constexpr uint64_t room = 4096;
  kit::Block block(kit, room);
  for (const uint32_t width : {1, 2, 4})
    for (const uint64_t count : {0, 1, 5, 33}) {
      const uint64_t offset = 64 + width;
      block.fill(0x77);
      CHECK_OK(kit.api().mem_set(kit.self(), 0, kit.default_stream(), block.data() + offset, 0x22222222, width, count));
      std::vector<uint8_t> want(room, 0x77);
      memset(want.data() + offset, 0x22, width * count);
      CHECK(block.read() == want);
    }
}

TB_CASE(CPY, 07, TB_GROUP_CORE, "mem_set.2", "another width of the pattern is refused") {
  kit::Block block(kit, 64);
  block.fill(9);
  for (const uint32_t width : {0u, 3u, 5u, 8u, 16u, UINT32_MAX})
    CHECK_STATUS(kit.api().mem_set(kit.self(), 0, kit.default_stream(), block.data(), 1, width, 1),
                 TB_INVALID_ARGUMENT);
  CHECK(block.read() == std::vector<uint8_t>(64, 9));
}

TB_CASE(CPY, 08, TB_GROUP_CORE, "mem_copy.6", "an unknown kind of copy is refused, and nothing is copied") {
  kit::Block block(kit, 64);
  block.fill(9);
  const std::vector<uint8_t> sent(64, 1);
  for (const int32_t kind : {0, -1, 4, 99})
    CHECK_STATUS(kit.api().mem_copy(kit.self(), 0, kit.default_stream(), block.data(), sent.data(), 64, kind),
                 TB_INVALID_ARGUMENT);
  CHECK(block.read() == std::vector<uint8_t>(64, 9));
}

TB_CASE(CPY, 09, TB_GROUP_CORE, "mem_copy.3 mem_set.3", "size 0 touches neither pointer, also NULL") {
  for (const int32_t kind : {TB_COPY_HOST_TO_DEVICE, TB_COPY_DEVICE_TO_HOST, TB_COPY_DEVICE_TO_DEVICE})
    copy(kit, nullptr, nullptr, 0, kind);
  CHECK_OK(kit.api().mem_set(kit.self(), 0, kit.default_stream(), nullptr, 1, 4, 0));
  kit.synchronize(kit.default_stream());
}

TB_CASE(CPY, 10, TB_GROUP_CORE, "stream_create.2 mem_copy.1", "copies of one stream keep their order") {
  constexpr uint64_t size = 4096;
  constexpr int rounds = 200;
  kit::Block a(kit, size), b(kit, size);
  std::vector<std::vector<uint8_t>> sources;
  for (int i = 0; i < rounds; ++i) sources.push_back(pattern(size, static_cast<uint64_t>(i) + 1));
  std::vector<uint8_t> back(size);
  for (const std::vector<uint8_t> &source : sources) {
    copy(kit, a.data(), source.data(), size, TB_COPY_HOST_TO_DEVICE);
    copy(kit, b.data(), a.data(), size, TB_COPY_DEVICE_TO_DEVICE);
    copy(kit, back.data(), b.data(), size, TB_COPY_DEVICE_TO_HOST);
  }
  kit.synchronize(kit.default_stream());
  CHECK(back == sources.back());
}

TB_CASE(CPY, 11, TB_GROUP_CORE, "mem_copy.3 stream_synchronize.1", "a burst of ten thousand small copies all arrive") {
  constexpr uint64_t count = 10000, size = 16;
  kit::Block block(kit, count * size);
  block.fill(0);
  const std::vector<uint8_t> source = pattern(count * size);
  for (uint64_t i = 0; i < count; ++i)
    copy(kit, block.data() + i * size, source.data() + i * size, size, TB_COPY_HOST_TO_DEVICE);
  kit.synchronize(kit.default_stream());
  CHECK(block.read() == source);
}

TB_CASE(CPY, 12, TB_GROUP_CORE, "mem_copy.2", "the source may change once the stream has passed the copy") {
  constexpr uint64_t size = 1 << 20;
  kit::Block block(kit, size);
  std::vector<uint8_t> source = pattern(size);
  const std::vector<uint8_t> sent = source;
  copy(kit, block.data(), source.data(), size, TB_COPY_HOST_TO_DEVICE);
  kit.synchronize(kit.default_stream());
  std::fill(source.begin(), source.end(), uint8_t(0));
  CHECK(block.read() == sent);
  block.fill(0x44);
  std::vector<uint8_t> back(size);
  copy(kit, back.data(), block.data(), size, TB_COPY_DEVICE_TO_HOST);
  kit.synchronize(kit.default_stream());
  CHECK(back == std::vector<uint8_t>(size, 0x44));
}

TB_CASE(CPY, 13, TB_GROUP_ASYNC, "T5",
        "copies and sets are queued: the call returns before the work behind it is done") {
  kit::Stream stream(kit);
  kit::Block block(kit, 4096), other(kit, 4096);
  kit::Gate gate(kit, stream);
  CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block.data(), 5, 1, 4096));
  CHECK_OK(kit.api().mem_copy(kit.self(), 0, stream, other.data(), block.data(), 4096, TB_COPY_DEVICE_TO_DEVICE));
  CHECK_EQUAL(kit.api().stream_query(kit.self(), stream), static_cast<tb_status>(TB_NOT_READY));
  gate.open();
  stream.synchronize();
  CHECK(other.read() == std::vector<uint8_t>(4096, 5));
}

TB_CASE(CPY, 14, TB_GROUP_CORE, "mem_set.4 mem_set.3", "patterns of any width are set at any byte address") {
  constexpr uint32_t value = 0xA1B2C3D4;
  constexpr uint64_t room = 1024;
  kit::Block block(kit, room);
  for (const uint32_t width : {1, 2, 4})
    for (const uint64_t offset : {64, 65, 66, 67})
      for (const uint64_t count : {1, 2, 3, 101}) {
        block.fill(0x77);
        CHECK_OK(kit.api().mem_set(kit.self(), 0, kit.default_stream(), block.data() + offset, value, width, count));
        std::vector<uint8_t> want(room, 0x77);
        for (uint64_t i = 0; i < count; ++i) memcpy(want.data() + offset + i * width, &value, width);
        CHECK(block.read() == want);
      }
}

} // namespace tb::contract::copies_cases
