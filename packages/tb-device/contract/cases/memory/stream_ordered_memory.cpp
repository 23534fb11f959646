// SOA: memory that is allocated and given back in stream order.
#include <set>

#include "contract/support/probe.h"

namespace tb::contract::stream_ordered_memory_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_SOA;

uint8_t *allocate(Kit &kit, tb_stream *stream, uint64_t size) {
  void *memory = nullptr;
  CHECK_OK(kit.api().mem_alloc_async(kit.self(), stream, size, 0, &memory));
  CHECK(memory != nullptr);
  return static_cast<uint8_t *>(memory);
}

TB_CASE(SOA, 01, needs, "mem_alloc_async.1", "work enqueued after the call uses the memory") {
  auto [api, self] = driver_of(kit);
  Block result(kit, 4);
  result.fill(0);
  Stream stream(kit);
  Gate gate(kit, stream); // the memory is asked for, used and given back before the stream has begun
  OpensLater rescue(gate, too_late);
  uint8_t *memory = allocate(kit, stream, 1 << 20);
  set_word(kit, stream, memory + (1 << 20) - 4, 101);
  copy_word(kit, stream, result.data(), memory + (1 << 20) - 4);
  CHECK_OK(api.mem_free_async(self, stream, memory));
  CHECK(!rescue.opened());
  gate.open();
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, result.data()), 101u);
}

TB_CASE(SOA, 02, needs, "mem_alloc_async.2", "aligned as mem_alloc's; size 0 is a pointer of its own") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  std::set<uint8_t *> live;
  for (const uint64_t size : {0, 0, 1, 7, 64, 65, 4097, 1 << 20}) {
    uint8_t *memory = allocate(kit, stream, size);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(memory) % kit.info().alignment, uintptr_t(0));
    CHECK(live.insert(memory).second);
    if (size) CHECK_OK(api.mem_set(self, 0, stream, memory, 2, 1, size));
  }
  for (uint8_t *memory : live) CHECK_OK(api.mem_free_async(self, stream, memory));
  stream.synchronize();
}

TB_CASE(SOA, 03, needs, "mem_free_async.1",
        "memory is not given to another stream before its own has passed the free") {
  auto [api, self] = driver_of(kit);
  constexpr uint64_t block_bytes = 1 << 16;
  Block result(kit, block_bytes);
  result.fill(0);
  Stream first(kit), second(kit);
  std::vector<uint8_t *> others;
  uint8_t *memory = allocate(kit, first, block_bytes);
  Gate gate(kit, first);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.mem_set(self, 0, first, memory, 0x33, 1, block_bytes));
  CHECK_OK(api.mem_copy(self, 0, first, result.data(), memory, block_bytes, TB_COPY_DEVICE_TO_DEVICE));
  CHECK_OK(api.mem_free_async(self, first, memory));
  for (int i = 0; i < 16; ++i) {
    others.push_back(allocate(kit, second, block_bytes));
    CHECK(others.back() + block_bytes <= memory || memory + block_bytes <= others.back());
    CHECK_OK(api.mem_set(self, 0, second, others.back(), 0x99, 1, block_bytes));
  }
  second.synchronize();
  CHECK(!rescue.opened());
  gate.open();
  first.synchronize();
  for (const uint8_t byte : result.read()) CHECK_EQUAL(int(byte), 0x33);
  for (uint8_t *other : others) CHECK_OK(api.mem_free_async(self, second, other));
  second.synchronize();
}

TB_CASE(SOA, 04, needs, "mem_free_async.2", "freeing NULL is a no-op") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  for (int i = 0; i < 3; ++i) CHECK_OK(api.mem_free_async(self, stream, nullptr));
  stream.synchronize();
}

TB_CASE(SOA, 05, needs, "mem_free_async.1 device_memory_info.2",
        "the memory is back when the stream has passed the free") {
  auto [api, self] = driver_of(kit);
  kit.need(api.device_memory_info, "device_memory_info");
  Stream stream(kit);
  uint64_t before = 0, during = 0, after = 0, total = 0;
  CHECK_OK(api.device_memory_info(self, 0, &before, &total));
  constexpr uint64_t block_bytes = 8 << 20;
  for (int round = 0; round < 20; ++round) {
    uint8_t *memory = allocate(kit, stream, block_bytes);
    stream.synchronize();
    CHECK_OK(api.device_memory_info(self, 0, &during, &total));
    CHECK(during + block_bytes <= before);
    CHECK_OK(api.mem_free_async(self, stream, memory));
    stream.synchronize();
  }
  CHECK_OK(api.device_memory_info(self, 0, &after, &total));
  CHECK_EQUAL(after, before);
}

TB_CASE(SOA, 06, needs, "mem_alloc_async.2 mem_alloc.3 E1",
        "too much is out of memory, whatever the size, and the stream goes on") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  void *memory = &stream;
  for (const uint64_t size : {kit.info().total_memory + (1 << 20), uint64_t(1) << 60, UINT64_MAX}) {
    CHECK_STATUS(api.mem_alloc_async(self, stream, size, 0, &memory), TB_OUT_OF_MEMORY);
    CHECK_EQUAL(memory, static_cast<void *>(&stream));
  }
  uint8_t *usable = allocate(kit, stream, 4096);
  set_word(kit, stream, usable, 106);
  CHECK_OK(api.mem_free_async(self, stream, usable));
  stream.synchronize();
}

} // namespace
} // namespace tb::contract::stream_ordered_memory_cases
