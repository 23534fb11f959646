// test_pinned.cpp -- pinned memory: reserved memory stays close to the memory in use for all sizes, and faults lose
// nothing.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "fake_driver.h"
#include "heap/heap.h"

namespace {

using tb::allocator::MiB;
constexpr uint64_t KiB = 1024;

struct Item {
  tb_block *block;
  char *pointer;
  uint64_t size;
  char mark;
};

struct Pinned {
  tb::Driver driver{&fake::api, nullptr};
  tb::allocator::Heap heap{driver, std::make_unique<tb::allocator::HostSource>(driver),
                           tb::allocator::pinned_policy({})};
  uint64_t in_use = 0, most_in_use = 0; // requested bytes

  tb_status allocate(uint64_t size, Item *out) {
    void *pointer = nullptr;
    *out = {nullptr, nullptr, size, static_cast<char>(size / 3)};
    if (tb_status status = heap.allocate(size, nullptr, &pointer, &out->block); status != TB_OK) return status;
    out->pointer = static_cast<char *>(pointer);
    out->pointer[0] = out->pointer[size - 1] = out->mark;
    in_use += size;
    most_in_use = std::max(most_in_use, in_use);
    return TB_OK;
  }
  Item make(uint64_t size) {
    Item item;
    CHECK(allocate(size, &item) == TB_OK);
    return item;
  }
  void free(const Item &item) {
    CHECK(item.pointer[0] == item.mark && item.pointer[item.size - 1] == item.mark);
    in_use -= item.size;
    heap.deallocate(item.block);
  }
  tb_allocator_statistics read() {
    tb_allocator_statistics all{};
    heap.statistics(&all);
    return all;
  }
  uint64_t reserved() { return static_cast<uint64_t>(read().reserved_bytes[0].current); }
  void end() {
    fake::complete_all();
    CHECK(heap.empty_cache() == TB_OK);
    tb_allocator_statistics all = read();
    CHECK(!all.reserved_bytes[0].current && !all.segment[0].current && !all.requested_bytes[0].current);
    CHECK(!all.active[0].current && !all.inactive_split[0].current);
    CHECK(fake::world.host_memory.empty() && !fake::world.used);
  }
};

// Above 64 KiB the bound holds after every allocation.
void reserved_memory_follows_the_memory_in_use() {
  std::mt19937_64 random(7);
  Pinned pinned;
  std::vector<Item> items;
  for (int step = 0; step < 20000; ++step) {
    uint64_t most = step / 1000 % 2 ? 4 * MiB : 400 * KiB; // phases of large and of small sizes alternate
    if (random() % 100 < 53 && pinned.in_use < 60 * MiB) {
      items.push_back(pinned.make(64 * KiB + 1 + random() % most));
      CHECK(static_cast<double>(pinned.reserved()) <= 1.06 * static_cast<double>(pinned.most_in_use));
    } else if (!items.empty()) {
      std::swap(items[random() % items.size()], items.back());
      pinned.free(items.back());
      items.pop_back();
    }
  }
  for (Item &item : items) pinned.free(item);
  pinned.end();
}

void a_block_that_fits_needs_no_driver_call() {
  Pinned pinned;
  Item large = pinned.make(20 * MiB), small = pinned.make(100 * KiB);
  pinned.free(small);
  int calls = fake::world.allocations + fake::world.frees;
  for (int again = 0; again < 3; ++again)
    // The slack allows these without a driver call.
    for (uint64_t size : {100 * KiB, 99 * KiB, 64 * KiB + 1}) pinned.free(pinned.make(size));
  CHECK(fake::world.allocations + fake::world.frees == calls);
  pinned.free(large);
  Item part = pinned.make(10 * MiB); // more than the slack allows
  CHECK(pinned.reserved() <= 20 * MiB + MiB);
  pinned.free(part);
  pinned.end();
}

void a_block_that_a_stream_still_uses_is_kept() {
  tb_stream *user = fake::new_stream();
  Pinned pinned;
  Item used = pinned.make(4 * MiB);
  CHECK(pinned.heap.record_stream(used.block, user) == TB_OK);
  user->queued = 1;
  pinned.free(used);
  Item larger = pinned.make(6 * MiB);
  CHECK(fake::world.host_memory.count(used.pointer) && larger.pointer != used.pointer);
  pinned.free(larger);
  user->done = 1;
  pinned.free(pinned.make(12 * MiB)); // both are idle now, so they are returned to the driver
  CHECK(fake::world.host_memory.size() == 1 && pinned.reserved() == 12 * MiB);
  pinned.end();
}

int calls_until_failure = 0;
bool fails() { return calls_until_failure > 0 && --calls_until_failure == 0; }

// Each memory call of the driver fails once. A driver whose free fails has freed the memory nevertheless.
void a_fault_at_every_call_leaves_exact_statistics() {
  static const tb_driver_api good = fake::api;
  fake::api.mem_alloc_host = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
    return fails() ? tb_status{TB_INTERNAL} : good.mem_alloc_host(self, device, size, flags, out);
  };
  fake::api.mem_free_host = [](tb_driver *self, void *pointer) {
    tb_status status = good.mem_free_host(self, pointer);
    return fails() ? tb_status{TB_INTERNAL} : status;
  };
  int failed = 0;
  for (int at = 1;; ++at) {
    calls_until_failure = at;
    Pinned pinned;
    int before = failed;
    for (uint64_t size : {4 * MiB, 6 * MiB, 3 * MiB, 7 * MiB, 40 * KiB}) {
      Item item, second;
      tb_status first = pinned.allocate(size, &item), other = pinned.allocate(size / 2, &second);
      failed += (first != TB_OK) + (other != TB_OK);
      tb_allocator_statistics now = pinned.read();
      CHECK(now.requested_bytes[0].current == static_cast<int64_t>(pinned.in_use));
      CHECK(now.reserved_bytes[0].current == static_cast<int64_t>(fake::world.used));
      CHECK(now.segment[0].current == static_cast<int64_t>(fake::world.host_memory.size()));
      if (first == TB_OK) pinned.free(item);
      if (other == TB_OK) pinned.free(second);
    }
    bool over = calls_until_failure > 0; // there were fewer calls, so none failed
    calls_until_failure = 0;
    CHECK(over || failed == before + 1);
    pinned.end();
    if (over) break;
  }
  CHECK(failed > 10);
  fake::api = good;
}

} // namespace

int main() {
  fake::install();
  reserved_memory_follows_the_memory_in_use();
  a_block_that_fits_needs_no_driver_call();
  a_block_that_a_stream_still_uses_is_kept();
  a_fault_at_every_call_leaves_exact_statistics();
}
