// test_remapping.cpp -- blocks made of parts of pages that other blocks use: no byte belongs to two blocks, and all
// memory is freed in the end.
#include <algorithm>
#include <cstring>

#include "fake_driver.h"
#include "heap/heap.h"
#include "shadow.h"

namespace {

using tb::allocator::MiB;
constexpr uint64_t capacity = 6 * MiB; // three pages

Shadow *shadow_of_unmap;

// Three pages, of which the end of the first and the start of the last are free, and a block made of these two parts.
struct Remapped {
  std::unique_ptr<tb::allocator::Heap> heap;
  tb_stream *stream = fake::new_stream();
  std::vector<Live> all; // the last block is the remapped one
  Shadow shadow;

  Remapped() {
    fake::world.capacity = capacity;
    tb::Driver driver{&fake::api, nullptr};
    tb::allocator::HeapPolicy policy;
    policy.growing = true;
    policy.small_limit = tb::allocator::paged_small_limit;
    policy.total_memory = capacity;
    heap =
        std::make_unique<tb::allocator::Heap>(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0), policy);
    shadow_of_unmap = &shadow;
    fake::world.on_unmap = [](char *address, uint64_t size) { shadow_of_unmap->unmapped(address, size); };
  }
  ~Remapped() {
    while (!all.empty()) free(all.size() - 1);
    fake::complete_all();
    CHECK(heap->empty_cache() == TB_OK);
    heap->shutdown();
    fake::world.on_unmap = nullptr;
    CHECK(fake::world.used == 0 && fake::world.mapped.empty() && fake::world.ranges.empty());
  }

  tb_status allocate(uint64_t size, tb_stream *on = nullptr) {
    Live live{nullptr, nullptr, size, on ? on : stream, {}, static_cast<uint8_t>(17 * all.size() + size / 512)};
    void *pointer = nullptr;
    tb_status status = heap->allocate(size, live.stream, &pointer, &live.block);
    if (status != TB_OK) return status;
    live.pointer = static_cast<char *>(pointer);
    for (const Extent &mine : memory_of(live.pointer, size))
      for (const Live &other : all)
        for (const Extent &old : memory_of(other.pointer, other.size)) CHECK(!mine.overlaps(old));
    shadow.allocated(live);
    memset(live.pointer, live.mark, size);
    all.push_back(live);
    return TB_OK;
  }
  void check_contents() const {
    for (const Live &live : all)
      CHECK(std::all_of(live.pointer, live.pointer + live.size,
                        [&](char byte) { return static_cast<uint8_t>(byte) == live.mark; }));
  }
  void free(size_t index) {
    shadow.freed(all[index]);
    heap->deallocate(all[index].block);
    all.erase(all.begin() + static_cast<ptrdiff_t>(index));
  }
  tb_status fill() {
    for (int block = 0; block < 6; ++block)
      if (tb_status status = allocate(MiB); status != TB_OK) return status;
    free(4);
    free(1);
    return allocate(2 * MiB);
  }
  tb_allocator_statistics statistics() {
    tb_allocator_statistics now{};
    heap->statistics(&now);
    CHECK(now.reserved_bytes[0].current == static_cast<int64_t>(fake::world.used.load()));
    int64_t live = 0;
    for (const Live &one : all) live += static_cast<int64_t>(one.size);
    CHECK(now.allocated_bytes[0].current == live && now.allocation[0].current == static_cast<int64_t>(all.size()));
    CHECK(now.inactive_split_bytes[0].current >= 0 && now.inactive_split[0].current >= 0);
    return now;
  }
};

void the_last_parts_of_pages_make_a_block_of_their_own() {
  Remapped memory;
  CHECK(memory.fill() == TB_OK);
  CHECK(fake::world.mapped.size() == 5); // three pages, two of which are mapped twice
  memory.check_contents();
  tb_allocator_statistics full = memory.statistics();
  CHECK(full.reserved_bytes[0].current == capacity && full.active_bytes[0].current == capacity);
  CHECK(full.inactive_split_bytes[0].current == 0);
  CHECK(memory.allocate(512) == TB_OUT_OF_MEMORY); // no byte is left
  Live remapped = memory.all.back();
  CHECK(memory.heap->find(remapped.pointer + MiB) == remapped.block);
  CHECK(memory.heap->snapshot().size() > 0);
}

void remapped_memory_is_used_again_in_any_form() {
  Remapped memory;
  CHECK(memory.fill() == TB_OK);
  memory.free(4);
  for (int part = 0; part < 2; ++part) CHECK(memory.allocate(MiB) == TB_OK);
  memory.check_contents();
  CHECK(memory.allocate(512) == TB_OUT_OF_MEMORY);
  while (!memory.all.empty()) memory.free(0);
  CHECK(memory.allocate(capacity) == TB_OK); // the pages are whole again
  memory.statistics();
}

void pages_stay_mapped_until_the_stream_is_done_with_the_block() {
  Remapped memory;
  CHECK(memory.fill() == TB_OK);
  char *address = memory.all.back().pointer;
  memory.stream->queued = 5; // the stream still uses the blocks; the shadow checks each page that is unmapped
  while (!memory.all.empty()) memory.free(0);
  CHECK(memory.allocate(capacity) == TB_OK); // needs no wait, because it is for the same stream
  CHECK(fake::world.mapped.count(address - MiB) == 1);
  memory.free(0);
  memory.stream->done = 5;
  CHECK(memory.heap->empty_cache() == TB_OK && fake::world.mapped.empty());
}

void parts_that_another_stream_uses_are_not_taken() {
  Remapped memory;
  tb_stream *other = fake::new_stream();
  for (int block = 0; block < 6; ++block) CHECK(memory.allocate(MiB, block == 4 ? other : nullptr) == TB_OK);
  other->queued = 3;
  memory.free(4);
  memory.free(1);
  CHECK(memory.allocate(2 * MiB) == TB_OUT_OF_MEMORY);
  other->done = 3;
  CHECK(memory.allocate(2 * MiB) == TB_OK);
  memory.check_contents();
}

void a_pause_keeps_address_and_contents() {
  for (bool freed : {false, true}) {
    Remapped memory;
    CHECK(memory.fill() == TB_OK);
    CHECK(memory.heap->pause(true) == TB_OK);
    CHECK(fake::world.used == 0 && fake::world.mapped.empty());
    if (freed) memory.free(4);
    CHECK(memory.heap->empty_cache() == TB_OK);
    fake::world.capacity = capacity - 1;
    CHECK(memory.heap->resume() == TB_OUT_OF_MEMORY && fake::world.used == 0 && fake::world.mapped.empty());
    fake::world.capacity = capacity;
    fake::world.fail_map = 5; // the last of the second mappings fails
    CHECK(memory.heap->resume() == TB_INTERNAL && fake::world.used == 0 && fake::world.mapped.empty());
    CHECK(memory.heap->resume() == TB_OK);
    memory.check_contents();
    memory.statistics();
  }
}

// Makes one call of the driver fail, or this call and all later ones.
int calls_left;
bool fails_on;
bool fails() { return calls_left-- == 0 || (fails_on && calls_left < 0); }

void every_failing_call_leaves_things_as_they_were() {
  static const tb_driver_api whole = fake::api;
  fake::api.vmm_create = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, tb_physical **out) {
    return fails() ? TB_INTERNAL : whole.vmm_create(self, device, size, flags, out);
  };
  fake::api.vmm_map = [](tb_driver *self, void *address, uint64_t size, tb_physical *page, uint64_t offset) {
    return fails() ? TB_INTERNAL : whole.vmm_map(self, address, size, page, offset);
  };
  fake::api.vmm_set_access = [](tb_driver *self, void *address, uint64_t size, const int32_t *devices, uint32_t count,
                                uint32_t access) {
    return fails() ? TB_INTERNAL : whole.vmm_set_access(self, address, size, devices, count, access);
  };
  fake::api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) {
    return fails() ? TB_INTERNAL : whole.event_record(self, event, stream);
  };
  for (bool on : {false, true}) {
    bool done = false;
    for (int call = 0; !done; ++call) {
      Remapped memory;
      calls_left = call;
      fails_on = on;
      tb_status status = memory.fill();
      done = calls_left >= 0; // there were fewer calls, so none failed
      calls_left = INT32_MAX;
      fails_on = false;
      CHECK(status == TB_OK || !done);
      memory.check_contents();
      memory.statistics();
      while (!memory.all.empty()) memory.free(0);
      CHECK(memory.heap->empty_cache() == TB_OK && fake::world.used == 0);
      CHECK(memory.fill() == TB_OK); // works as before the failure
      memory.check_contents();
      CHECK(!done || call > 10);
    }
  }
  fake::api = whole;
}

} // namespace

int main() {
  fake::install();
  the_last_parts_of_pages_make_a_block_of_their_own();
  remapped_memory_is_used_again_in_any_form();
  pages_stay_mapped_until_the_stream_is_done_with_the_block();
  parts_that_another_stream_uses_are_not_taken();
  a_pause_keeps_address_and_contents();
  every_failing_call_leaves_things_as_they_were();
}
