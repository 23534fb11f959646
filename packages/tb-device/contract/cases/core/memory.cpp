// Cases about device memory of the group CORE.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "contract/child.h"

namespace tb::contract::memory_cases {
namespace {

uint64_t free_bytes(Kit &kit, int32_t device = 0) {
  uint64_t free = 0, total = 0;
  CHECK_OK(kit.api().device_memory_info(kit.self(), device, &free, &total));
  return free;
}

// Allocates blocks of `size` until the device is full or `limit` bytes are held.
std::vector<void *> allocate_until(Kit &kit, uint64_t size, uint64_t limit) {
  std::vector<void *> blocks;
  for (uint64_t held = 0; held + size <= limit; held += size) {
    void *block = nullptr;
    const tb_status status = kit.api().mem_alloc(kit.self(), 0, size, 0, &block);
    if (status != TB_OK) {
      kit.check_status(status, TB_OUT_OF_MEMORY, "mem_alloc", __FILE__, __LINE__);
      break;
    }
    blocks.push_back(block);
  }
  return blocks;
}

void free_all(Kit &kit, const std::vector<void *> &blocks) {
  for (void *block : blocks) CHECK_OK(kit.api().mem_free(kit.self(), 0, block));
}

constexpr uint64_t secret_bytes = uint64_t(8) << 20;
constexpr std::array<uint8_t, 16> secret = {0x9E, 0x37, 0x79, 0xB9, 0x7F, 0x4A, 0x7C, 0x15,
                                            0xF3, 0x9C, 0xC0, 0x60, 0x5C, 0xED, 0xC8, 0x34};

} // namespace

TB_CASE(MEM, 01, TB_GROUP_CORE, "mem_alloc.1", "memory is aligned as the device says") {
  const uint64_t alignment = kit.info().alignment;
  for (const uint64_t size : {1, 7, 4097, 100000}) {
    kit::Block block(kit, size);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(block.data()) % alignment, 0u);
  }
}

TB_CASE(MEM, 02, TB_GROUP_CORE, "mem_alloc.2", "size 0 gives a unique pointer to free") {
  std::set<void *> seen;
  for (int i = 0; i < 100; ++i) {
    void *block = nullptr;
    CHECK_OK(kit.api().mem_alloc(kit.self(), 0, 0, 0, &block));
    CHECK(block != nullptr);
    CHECK(seen.insert(block).second);
  }
  for (void *block : seen) CHECK_OK(kit.api().mem_free(kit.self(), 0, block));
}

TB_CASE(MEM, 03, TB_GROUP_CORE, "mem_alloc.4", "ten thousand live blocks do not overlap") {
  std::vector<std::pair<uintptr_t, uint64_t>> ranges;
  for (uint64_t i = 0; i < 10000; ++i) {
    const uint64_t size = 1 + i * 37 % 3000;
    void *block = nullptr;
    CHECK_OK(kit.api().mem_alloc(kit.self(), 0, size, 0, &block));
    ranges.emplace_back(reinterpret_cast<uintptr_t>(block), size);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i - 1].first + ranges[i - 1].second <= ranges[i].first);
  for (const auto &[address, size] : ranges)
    CHECK_OK(kit.api().mem_free(kit.self(), 0, reinterpret_cast<void *>(address)));
}

TB_CASE(MEM, 04, TB_GROUP_CORE, "mem_alloc.3 E1", "more than there is: out of memory, the out-parameter untouched") {
  void *const before = &kit;
  void *block = before;
  CHECK_STATUS(kit.api().mem_alloc(kit.self(), 0, kit.info().total_memory + 1, 0, &block), TB_OUT_OF_MEMORY);
  CHECK(block == before);
}

TB_CASE(MEM, 05, TB_GROUP_CORE, "mem_alloc.3", "the driver is usable after out of memory") {
  void *block = nullptr;
  for (int i = 0; i < 100; ++i)
    CHECK_STATUS(kit.api().mem_alloc(kit.self(), 0, kit.info().total_memory + 1, 0, &block), TB_OUT_OF_MEMORY);
  kit::Block after(kit, 4096);
  after.fill(0x11);
  CHECK(after.read() == std::vector<uint8_t>(4096, 0x11));
}

TB_CASE(MEM, 06, TB_GROUP_CORE, "mem_alloc.3", "an absurd size is out of memory: no sum overflows") {
  for (const uint64_t size : {uint64_t(1) << 60, uint64_t(1) << 63, UINT64_MAX - 4096, UINT64_MAX - 1, UINT64_MAX}) {
    void *block = nullptr;
    CHECK_STATUS(kit.api().mem_alloc(kit.self(), 0, size, 0, &block), TB_OUT_OF_MEMORY);
  }
}

TB_CASE(MEM, 07, TB_GROUP_CORE, "device_memory_info.2 mem_free.1",
        "memory_info falls with a block, and rises when it is freed") {
  kit.need(kit.api().device_memory_info, "device_memory_info");
  constexpr uint64_t size = uint64_t(16) << 20;
  const uint64_t before = free_bytes(kit);
  {
    kit::Block block(kit, size);
    CHECK(free_bytes(kit) + size <= before);
  }
  CHECK_EQUAL(free_bytes(kit), before);
}

TB_CASE(MEM, 08, TB_GROUP_CORE, "mem_free.2", "freeing NULL is a no-op") {
  for (int i = 0; i < 3; ++i) CHECK_OK(kit.api().mem_free(kit.self(), 0, nullptr));
}

TB_CASE(MEM, 11, TB_GROUP_CORE, "mem_alloc.5", "a pointer into a block works for copies and sets, to the last byte") {
  constexpr uint64_t size = 1000;
  kit::Block block(kit, size);
  block.fill(0);
  tb_stream *stream = kit.default_stream();
  std::vector<uint8_t> want(size, 0);
  for (const uint64_t offset : {uint64_t(1), uint64_t(63), uint64_t(500), size - 1}) {
    const uint8_t sent = static_cast<uint8_t>(offset);
    CHECK_OK(kit.api().mem_copy(kit.self(), 0, stream, block.data() + offset, &sent, 1, TB_COPY_HOST_TO_DEVICE));
    kit.synchronize(stream); // `sent` must outlive the copy
    want[offset] = sent;
    CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block.data() + offset - 1, 0xEE, 1, 1));
    want[offset - 1] = 0xEE;
  }
  kit.synchronize(stream);
  CHECK(block.read() == want);
  CHECK_EQUAL(kit.bytes_of(block.data() + size - 1, 1)[0], want[size - 1]);
}

TB_CASE(MEM, 12, TB_GROUP_CORE, "E7", "an unknown flag is refused") {
  for (int bit = 0; bit < 64; ++bit) {
    void *block = nullptr;
    CHECK_STATUS(kit.api().mem_alloc(kit.self(), 0, 64, uint64_t(1) << bit, &block), TB_INVALID_ARGUMENT);
    CHECK(block == nullptr);
  }
}

TB_CASE(MEM, 13, TB_GROUP_CORE, "mem_free.1 mem_alloc.3", "the device is filled and emptied twenty times",
        .seconds = 60) {
  uint64_t room = kit.info().total_memory;
  if (kit.api().device_memory_info) room = free_bytes(kit);
  const uint64_t size = std::max<uint64_t>(room / 64, 4096);
  size_t first = 0;
  for (int round = 0; round < 20; ++round) {
    const std::vector<void *> blocks = allocate_until(kit, size, room / 20 * 19);
    if (round == 0) first = blocks.size();
    CHECK_EQUAL(blocks.size(), first);
    free_all(kit, blocks);
  }
  CHECK(first >= 1);
}

TB_CHILD(leave_secret) {
  std::vector<uint8_t> bytes;
  while (bytes.size() < secret_bytes) bytes.insert(bytes.end(), secret.begin(), secret.end());
  {
    kit::Block block(kit, bytes.size());
    block.write(bytes);
    CHECK(block.read() == bytes);
  }
  parent.send("left");
}

TB_CASE(MEM, 17, TB_GROUP_CORE, "mem_alloc.6", "memory never holds what another process left in it") {
  kit::Child child(kit, "leave_secret");
  CHECK_EQUAL(child.receive(), std::string("left"));
  child.finish();
  for (int i = 0; i < 8; ++i) {
    kit::Block block(kit, secret_bytes);
    const std::vector<uint8_t> found = block.read();
    CHECK(std::search(found.begin(), found.end(), secret.begin(), secret.end()) == found.end());
  }
}

} // namespace tb::contract::memory_cases
