// test_fuzz.cpp -- random operations on several streams, checked against a shadow of every byte range.
//
// Promises: allocated blocks never overlap, neither by address nor in memory. Memory is allocated again only in stream
// order, after all streams that used it have passed, or if the new stream waits for them. No address is unmapped that
// queued work may use. Addresses are aligned. The statistics are consistent after every step and zero at the end.
#include <algorithm>
#include <cstring>
#include <random>

#include "fake_driver.h"
#include "heap/heap.h"
#include "shadow.h"

namespace {

Shadow *shadow_of_unmap;

uint64_t some_size(std::mt19937_64 &random) {
  switch (random() % 8) {
  case 0:
    return 1 + random() % 512;
  case 1:
  case 2:
    return 1 + random() % 20000;
  case 3:
  case 4:
    return 1 + random() % (1 << 20);
  case 5:
    return (1 << 20) - 256 + random() % 512;
  case 6:
    return 1 + random() % (12 << 20);
  default:
    return uint64_t{1} << (random() % 24);
  }
}

void fuzz(bool growing, uint64_t seed, int steps) {
  tb::Driver driver{&fake::api, nullptr};
  tb::allocator::HeapPolicy policy;
  policy.growing = growing;
  policy.total_memory = fake::world.capacity;
  tb::allocator::Heap heap(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0), policy);
  std::mt19937_64 random(seed);
  std::vector<tb_stream *> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(fake::new_stream());
  std::vector<Live> all;
  Shadow shadow;
  shadow_of_unmap = &shadow;
  fake::world.on_unmap = [](char *address, uint64_t size) { shadow_of_unmap->unmapped(address, size); };
  int64_t bytes = 0, requested = 0;
  int failures = 0;

  auto give_back = [&](size_t index) {
    Live live = all[index];
    CHECK(static_cast<uint8_t>(live.pointer[0]) == live.mark);
    CHECK(static_cast<uint8_t>(live.pointer[live.size - 1]) == live.mark);
    shadow.freed(live);
    bytes -= static_cast<int64_t>(live.block->size);
    requested -= static_cast<int64_t>(live.size);
    heap.deallocate(live.block);
    all[index] = all.back();
    all.pop_back();
  };

  for (int step = 0; step < steps; ++step) {
    uint64_t choice = random() % 100;
    tb_stream *stream = streams[random() % streams.size()];
    if (choice < 50) {
      Live live{nullptr, nullptr, some_size(random), stream, {}, static_cast<uint8_t>(random())};
      void *pointer = nullptr;
      tb_status status = heap.allocate(live.size, stream, &pointer, &live.block);
      if (status == TB_OUT_OF_MEMORY) {
        CHECK(!pointer && !live.block);
        ++failures;
        for (size_t i = all.size() / 2; i-- > 0;) give_back(i);
        continue;
      }
      CHECK(status == TB_OK);
      live.pointer = static_cast<char *>(pointer);
      CHECK(reinterpret_cast<uintptr_t>(pointer) % 512 == 0);
      CHECK(live.block->size >= live.size);
      for (const Live &other : all)
        CHECK(live.pointer + live.block->size <= other.pointer || other.pointer + other.block->size <= live.pointer);
      if (growing)
        for (const Extent &mine : memory_of(live.pointer, live.size))
          for (const Live &other : all)
            for (const Extent &old : memory_of(other.pointer, other.size)) CHECK(!mine.overlaps(old));
      shadow.allocated(live);
      live.pointer[0] = live.pointer[live.size - 1] = static_cast<char>(live.mark);
      bytes += static_cast<int64_t>(live.block->size);
      requested += static_cast<int64_t>(live.size);
      all.push_back(live);
    } else if (choice < 80) {
      if (!all.empty()) give_back(random() % all.size());
    } else if (choice < 88) {
      if (all.empty()) continue;
      Live &live = all[random() % all.size()];
      CHECK(heap.record_stream(live.block, stream) == TB_OK);
      if (stream != live.stream) live.uses.push_back(stream);
    } else if (choice < 95) {
      stream->queued += 1 + random() % 3;
    } else if (choice < 99) {
      uint64_t limit = reach(stream);
      if (limit > stream->done) stream->done += 1 + random() % (limit - stream->done);
    } else if (random() % 20 == 0) {
      CHECK(heap.empty_cache() == TB_OK);
    }
    if (!all.empty()) {
      const Live &live = all[random() % all.size()];
      CHECK(heap.find(live.pointer + random() % live.size) == live.block);
    }
    tb_allocator_statistics now{};
    heap.statistics(&now);
    CHECK(now.allocation[0].current == static_cast<int64_t>(all.size()));
    CHECK(now.allocated_bytes[0].current == bytes);
    CHECK(now.requested_bytes[0].current >= requested);
    CHECK(now.active_bytes[0].current >= bytes);
    CHECK(now.reserved_bytes[0].current == static_cast<int64_t>(fake::world.used.load()));
    CHECK(now.reserved_bytes[0].current >= now.active_bytes[0].current + now.inactive_split_bytes[0].current);
    CHECK(now.inactive_split[0].current >= 0 && now.inactive_split_bytes[0].current >= 0);
  }
  CHECK(failures > 0 || steps < 5000); // the test has reached the capacity
  while (!all.empty()) give_back(all.size() - 1);
  fake::complete_all();
  CHECK(heap.empty_cache() == TB_OK);
  tb_allocator_statistics end{};
  heap.statistics(&end);
  for (int kind = 0; kind < 3; ++kind) {
    for (const tb_statistic *one :
         {end.allocation, end.segment, end.active, end.inactive_split, end.allocated_bytes, end.reserved_bytes,
          end.active_bytes, end.inactive_split_bytes, end.requested_bytes}) {
      CHECK(one[kind].current == 0);
      CHECK(one[kind].allocated == one[kind].freed);
      CHECK(one[kind].peak >= 0);
    }
  }
  heap.shutdown();
  fake::world.on_unmap = nullptr;
  CHECK(fake::world.used == 0);
  CHECK(fake::world.ranges.empty() && fake::world.mapped.empty());
  CHECK(fake::world.events.empty());
  fprintf(stderr, "fuzz growing=%d seed=%llu: %d steps, %d out of memory, %d pages mapped, %d waits\n", growing,
          static_cast<unsigned long long>(seed), steps, failures, fake::world.maps.load(), fake::world.waits.load());
  CHECK(!growing || (fake::world.maps > 300 && fake::world.waits > 0)); // pages were remapped, also between streams
}

} // namespace

int main(int count, char **arguments) {
  fake::install();
  int steps = count > 1 ? atoi(arguments[1]) : 8000;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    for (bool growing : {false, true}) fuzz(growing, seed, steps);
}
