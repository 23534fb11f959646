// test_memory_resource.cpp -- the allocator as std::pmr::memory_resource and by stream.
#include "tb/memory_resource.h"

#include <memory_resource>
#include <vector>

#include "heap_fixture.h"

namespace {

bool out_of_memory(auto body) {
  try {
    body();
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}

void containers_live_in_pinned_memory() {
  tb::PinnedMemoryResource pinned(table);
  {
    std::pmr::vector<int> numbers(&pinned);
    for (int i = 0; i < 100000; ++i) numbers.push_back(i);
    CHECK(numbers[99999] == 99999);
    CHECK(table.host_find(numbers.data()) != nullptr);
  }
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  CHECK(table.host_statistics(&all) == TB_OK && all.allocated_bytes[0].current == 0);
}

void every_alignment_is_kept_and_all_is_given_back() {
  tb::DeviceMemoryResource device(table, 0);
  for (size_t alignment = 1; alignment <= (size_t{1} << 16); alignment *= 2) {
    void *aligned = device.allocate(1000, alignment), *other = device.allocate(0, alignment);
    CHECK(reinterpret_cast<uintptr_t>(aligned) % alignment == 0 && other && other != aligned);
    device.deallocate(aligned, 1000, alignment);
    device.deallocate(other, 0, alignment);
  }
  CHECK(read().allocated_bytes[0].current == 0);
}

void memory_is_used_again_in_the_order_of_the_stream_that_gave_it_back() {
  reset();
  tb::StreamMemoryResource device(table, 0);
  tb_stream *first = fake::new_stream(), *second = fake::new_stream();
  void *pointer = device.allocate(first, 1 << 20);
  ++second->queued; // work that uses the memory
  device.deallocate(second, pointer, 1 << 20);
  void *again = device.allocate(first, 1 << 20);
  CHECK(again != pointer); // `second` still uses it
  device.deallocate(first, again, 1 << 20);
  fake::complete_all();
}

void resources_are_equal_to_themselves_only() {
  tb::DeviceMemoryResource one(table, 0), two(table, 0);
  CHECK(one == one && one != two);
}

void a_failed_allocation_throws_bad_alloc() {
  tb::DeviceMemoryResource device(table, 0);
  CHECK(out_of_memory([&] { static_cast<void>(device.allocate(uint64_t{1} << 40, 8)); }));
  volatile size_t most = SIZE_MAX; // volatile, because the compiler warns about a constant of this size
  CHECK(out_of_memory([&] { static_cast<void>(device.allocate(most, 4096)); }));
}

} // namespace

int main() {
  fake::install();
  containers_live_in_pinned_memory();
  every_alignment_is_kept_and_all_is_given_back();
  memory_is_used_again_in_the_order_of_the_stream_that_gave_it_back();
  resources_are_equal_to_themselves_only();
  a_failed_allocation_throws_bad_alloc();
  printf("ok\n");
}
