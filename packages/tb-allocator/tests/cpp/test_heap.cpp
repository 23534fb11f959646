// test_heap.cpp -- the promises of the allocator one by one, through the C table, over the fake driver.
#include "heap_fixture.h"

namespace {

constexpr uint64_t piece = uint64_t{64} << 10; // too large for a thread's cache, so a free goes directly to the heap

void size_zero_is_null() {
  Block none{&none, reinterpret_cast<tb_block *>(&none)};
  CHECK(table.allocate(0, 0, nullptr, &none.pointer, &none.block) == TB_OK);
  CHECK(!none.pointer && !none.block);
  table.deallocate(nullptr);
  CHECK(table.record_stream(nullptr, nullptr) == TB_OK);
  CHECK(!table.find(nullptr));
}

void blocks_are_split_and_merged_with_both_neighbours() {
  Block a = make(piece), b = make(piece), c = make(piece), d = make(piece);
  auto *base = static_cast<char *>(a.pointer);
  CHECK(b.pointer == base + piece && c.pointer == base + 2 * piece && d.pointer == base + 3 * piece);
  CHECK(read().inactive_split[0].current == 1); // the rest of the segment
  CHECK(read().inactive_split_bytes[1].current == static_cast<int64_t>(2 * MiB - 4 * piece));
  table.deallocate(a.block);
  table.deallocate(c.block);
  CHECK(read().inactive_split[1].current == 3);
  table.deallocate(b.block);
  CHECK(read().inactive_split[1].current == 2);
  Block three = make(3 * piece);
  CHECK(three.pointer == base);
  table.deallocate(three.block);
  table.deallocate(d.block);
  CHECK(read().inactive_split[0].current == 0 && read().inactive_split_bytes[0].current == 0);
  CHECK(read().segment[1].current == 1);
  reset();
}

void the_smallest_fitting_block_is_taken() {
  std::vector<Block> held;
  uint64_t sizes[] = {80 << 10, 240 << 10, 120 << 10, 400 << 10};
  std::vector<Block> blocks;
  for (uint64_t size : sizes) {
    blocks.push_back(make(size));
    held.push_back(make(512)); // keeps free blocks from being merged
  }
  for (Block block : blocks) table.deallocate(block.block);
  Block ten = make(100 << 10);
  CHECK(ten.pointer == blocks[2].pointer);
  Block thirteen = make(130 << 10);
  CHECK(thirteen.pointer == blocks[1].pointer);
  for (Block block : held) table.deallocate(block.block);
  table.deallocate(ten.block);
  table.deallocate(thirteen.block);
  reset();
}

void segments_have_the_sizes_of_the_pools() {
  struct {
    uint64_t size, segment;
    int pool;
  } cases[] = {{1, 2 * MiB, 1},         {MiB, 2 * MiB, 1},      {MiB + 1, 20 * MiB, 2}, {10 * MiB - 512, 20 * MiB, 2},
               {10 * MiB, 10 * MiB, 2}, {11 * MiB, 12 * MiB, 2}};
  for (auto &one : cases) {
    Block block = make(one.size);
    CHECK(read().reserved_bytes[one.pool].current == static_cast<int64_t>(one.segment));
    CHECK(read().requested_bytes[one.pool].current == static_cast<int64_t>(one.size));
    table.deallocate(block.block);
    reset();
  }
}

void out_of_memory_gives_back_what_is_cached_and_tries_again() {
  uint64_t capacity = std::exchange(fake::world.capacity, 40 * MiB);
  tb_stream *one = fake::new_stream(), *two = fake::new_stream();
  Block cached = make(30 * MiB, one);
  two->queued = one->queued = 1;
  CHECK(table.record_stream(cached.block, two) == TB_OK);
  table.deallocate(cached.block); // pending at first, and afterwards cached for the wrong stream
  int syncs = fake::world.device_syncs;
  Block block = make(32 * MiB, two);
  CHECK(two->done == 1);                        // the allocator waited for the event
  CHECK(fake::world.device_syncs == syncs + 1); // and synchronized before it freed memory
  CHECK(read().num_alloc_retries == 1 && read().num_ooms == 0 && read().num_sync_all_streams == 1);
  table.deallocate(block.block);
  reset();
  fake::world.capacity = capacity;
}

void out_of_memory_leaves_the_outs_alone_and_reports_the_figures() {
  uint64_t capacity = std::exchange(fake::world.capacity, 40 * MiB);
  tb_stream *one = fake::new_stream(), *two = fake::new_stream();
  Block held = make(4 * MiB, one), more = make(100, two);
  Block out{&out, reinterpret_cast<tb_block *>(&out)};
  CHECK(table.allocate(0, 30 * MiB, two, &out.pointer, &out.block) == TB_OUT_OF_MEMORY);
  CHECK(out.pointer == &out && out.block == reinterpret_cast<tb_block *>(&out));
  tb_error error{};
  CHECK(tb::host.take_error(&error));
  std::string text = error.text;
  for (const char *part :
       {"device 0 is out of memory. Tried to allocate 30.00 MiB", "18.00 MiB of 40.00 MiB free at the driver",
        "reserved 22.00 MiB", "4.00 MiB allocated", "largest free block 16.00 MiB", "Free by stream: "})
    if (text.find(part) == std::string::npos) {
      fprintf(stderr, "no '%s' in: %s\n", part, text.c_str());
      abort();
    }
  CHECK(read().num_ooms == 1);
  Block smaller = make(18 * MiB, two); // uses up the driver's memory
  CHECK(table.allocate(0, uint64_t{1} << 60, two, &out.pointer, &out.block) == TB_OUT_OF_MEMORY);
  CHECK(table.allocate(0, UINT64_MAX, two, &out.pointer, &out.block) == TB_OUT_OF_MEMORY);
  for (Block block : {held, more, smaller}) table.deallocate(block.block);
  reset();
  fake::world.capacity = capacity;
}

void near_the_end_a_segment_shrinks_to_the_request() {
  uint64_t capacity = std::exchange(fake::world.capacity, 8 * MiB);
  Block block = make(5 * MiB); // there is no room for a shared segment of 20 MiB
  CHECK(read().reserved_bytes[2].current == static_cast<int64_t>(6 * MiB));
  table.deallocate(block.block);
  reset();
  fake::world.capacity = capacity;
}

void the_limit_bounds_reserved_memory() {
  CHECK(table.set_limit(0, 30 * MiB) == TB_OK);
  Block block = make(20 * MiB);
  Block out;
  CHECK(table.allocate(0, 12 * MiB, nullptr, &out.pointer, &out.block) == TB_OUT_OF_MEMORY);
  tb_error error{};
  CHECK(tb::host.take_error(&error) && strstr(error.text, "limit of 30.00 MiB") &&
        strstr(error.text, "set_memory_limit"));
  table.deallocate(block.block);
  block = make(22 * MiB); // the cached 20 MiB were returned to the driver first
  table.deallocate(block.block);
  CHECK(table.set_limit(0, UINT64_MAX) == TB_OK);
  reset();
}

void find_knows_interior_pointers_of_live_blocks() {
  Block block = make(5000), host{};
  auto *bytes = static_cast<char *>(block.pointer);
  CHECK(table.find(bytes) == block.block && table.find(bytes + 4999) == block.block);
  CHECK(!table.find(bytes + 6000) && !table.find(&block));
  CHECK(table.host_allocate(5000, &host.pointer, &host.block) == TB_OK);
  CHECK(table.host_find(static_cast<char *>(host.pointer) + 4000) == host.block);
  CHECK(!table.find(host.pointer) && !table.host_find(bytes));
  table.deallocate(block.block);
  CHECK(!table.find(bytes));
  table.host_deallocate(host.block);
  CHECK(!table.host_find(host.pointer));
  CHECK(table.host_empty_cache() == TB_OK);
  reset();
}

void pinned_memory_waits_for_its_streams_and_wastes_little() {
  tb_stream *user = fake::new_stream();
  Block one, two, three;
  CHECK(table.host_allocate(5 * MiB + 1, &one.pointer, &one.block) == TB_OK);
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  CHECK(table.host_statistics(&all) == TB_OK);
  CHECK(all.reserved_bytes[0].current == static_cast<int64_t>(5 * MiB + 4096));
  CHECK(table.host_record_stream(one.block, user) == TB_OK);
  user->queued = 1;
  table.host_deallocate(one.block);
  CHECK(table.host_allocate(5 * MiB, &two.pointer, &two.block) == TB_OK);
  CHECK(two.pointer != one.pointer);
  user->done = 1;
  CHECK(table.host_allocate(5 * MiB, &three.pointer, &three.block) == TB_OK);
  CHECK(three.pointer == one.pointer);
  table.host_deallocate(two.block);
  table.host_deallocate(three.block);
  CHECK(table.host_empty_cache() == TB_OK);
  CHECK(fake::world.host_memory.empty());
}

void a_growing_range_that_got_no_memory_goes_back() {
  tb::Driver driver{&fake::api, nullptr};
  tb::allocator::HeapPolicy policy;
  policy.growing = true;
  policy.total_memory = fake::world.capacity;
  tb::allocator::Heap heap(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0), policy);
  Block out;
  tb_allocator_statistics all{};
  CHECK(heap.allocate(fake::world.capacity + MiB, nullptr, &out.pointer, &out.block) == TB_OUT_OF_MEMORY);
  heap.statistics(&all);
  CHECK(all.segment[0].current == 0 && all.reserved_bytes[0].current == 0 && all.num_ooms == 1);
  CHECK(fake::world.ranges.empty() && fake::world.used == 0);
  CHECK(heap.allocate(3 * MiB, nullptr, &out.pointer, &out.block) == TB_OK);
  heap.statistics(&all);
  CHECK(all.segment[2].current == 1 && all.reserved_bytes[2].current == static_cast<int64_t>(4 * MiB));
  heap.deallocate(out.block);
  CHECK(heap.empty_cache() == TB_OK);
  CHECK(fake::world.ranges.empty() && fake::world.used == 0);
}

void counters_have_pytorchs_meaning() {
  reset();
  Block small = make(700), large = make(3 * MiB);
  tb_allocator_statistics now = read();
  CHECK(now.allocation[0].current == 2 && now.allocation[1].current == 1 && now.allocation[2].current == 1);
  CHECK(now.allocated_bytes[0].current == static_cast<int64_t>(1024 + 3 * MiB));
  CHECK(now.requested_bytes[0].current == static_cast<int64_t>(700 + 3 * MiB));
  CHECK(now.reserved_bytes[0].current == static_cast<int64_t>(22 * MiB));
  CHECK(now.segment[0].allocated == 2 && now.segment[0].freed == 0);
  table.deallocate(large.block);
  now = read();
  CHECK(now.allocated_bytes[0].peak == static_cast<int64_t>(1024 + 3 * MiB));
  CHECK(now.allocated_bytes[0].current == 1024 && now.allocated_bytes[2].freed == static_cast<int64_t>(3 * MiB));
  CHECK(table.reset_peak(0) == TB_OK);
  CHECK(read().allocated_bytes[0].peak == 1024);
  CHECK(table.reset_accumulated(0) == TB_OK);
  now = read();
  CHECK(now.allocated_bytes[0].allocated == 0 && now.allocated_bytes[0].freed == 0);
  table.deallocate(small.block);
  CHECK(read().allocation[1].freed == 1 && read().allocation[1].allocated == 0);
  reset();
}

void an_older_caller_gets_the_fields_it_knows() {
  tb_allocator_statistics all{};
  all.struct_size = offsetof(tb_allocator_statistics, segment);
  all.num_ooms = -7;
  Block block = make(100);
  CHECK(table.statistics(0, &all) == TB_OK);
  CHECK(all.allocation[0].current == 1 && all.num_ooms == -7);
  table.deallocate(block.block);
  reset();
}

void freeing_twice_is_ignored() {
  Block block = make(100);
  table.deallocate(block.block);
  table.deallocate(block.block); // prints an error to stderr
  CHECK(read().allocation[0].current == 0);
  reset();
}

void a_device_out_of_range_is_refused() {
  Block out{&out, nullptr};
  for (int32_t device : {-1, 2, 500}) {
    CHECK(table.allocate(device, 10, nullptr, &out.pointer, &out.block) == TB_OUT_OF_RANGE);
    CHECK(out.pointer == &out);
  }
}

void after_fork_and_shutdown_nothing_happens() {
  Block block = make(100), out;
  fake::forked = 1;
  table.deallocate(block.block);
  fake::forked = 0;
  CHECK(read().allocation[0].current == 1); // the forked child did not free it
  CHECK(fake::world.on_shutdowns == 1);
  static_cast<char *>(block.pointer)[0] = 1;
  fake::world.shutdowns.front()(nullptr);
  static_cast<char *>(block.pointer)[99] = 1; // still accessible for code that reads late
  CHECK(fake::world.device_memory.size() == 1 && fake::world.events.empty());
  table.deallocate(block.block);
  CHECK(table.allocate(0, 10, nullptr, &out.pointer, &out.block) == TB_FAILED_PRECONDITION);
  for (auto &[pointer, size] : fake::world.device_memory) free(pointer);
}

} // namespace

int main() {
  fake::install();
  size_zero_is_null();
  blocks_are_split_and_merged_with_both_neighbours();
  the_smallest_fitting_block_is_taken();
  segments_have_the_sizes_of_the_pools();
  out_of_memory_gives_back_what_is_cached_and_tries_again();
  out_of_memory_leaves_the_outs_alone_and_reports_the_figures();
  near_the_end_a_segment_shrinks_to_the_request();
  the_limit_bounds_reserved_memory();
  find_knows_interior_pointers_of_live_blocks();
  pinned_memory_waits_for_its_streams_and_wastes_little();
  a_growing_range_that_got_no_memory_goes_back();
  counters_have_pytorchs_meaning();
  an_older_caller_gets_the_fields_it_knows();
  freeing_twice_is_ignored();
  a_device_out_of_range_is_refused();
  after_fork_and_shutdown_nothing_happens();
}
