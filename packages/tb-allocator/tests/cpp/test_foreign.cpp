// test_foreign.cpp -- the functions that PyTorch's pluggable allocator calls. They throw, so they are tested in C++.
#include "interop/foreign.h"

#include <stdexcept>

#include "heap_fixture.h"

namespace {

constexpr uint64_t size = 1 << 20;
void *native(tb_stream *stream) { return stream; } // the fake driver's native handles are its streams

void memory_without_a_driver_for_native_streams_comes_on_the_default_stream() {
  void *pointer = tb_torch_alloc(size, 0, nullptr);
  CHECK(read().requested_bytes[0].current == size);
  tb_torch_free(pointer, size, 0, nullptr);
  CHECK(read().requested_bytes[0].current == 0);
  try {
    tb_torch_alloc(size, 0, native(fake::new_stream()));
    CHECK(false);
  } catch (const std::bad_alloc &error) {
    CHECK(std::string(error.what()).find("group NATIVE") != std::string::npos);
  }
}

void out_of_memory_says_why() {
  try {
    tb_torch_alloc(ssize_t{1} << 40, 0, nullptr);
    CHECK(false);
  } catch (const std::bad_alloc &error) {
    CHECK(std::string(error.what()).find("1.00 TiB") != std::string::npos ||
          std::string(error.what()).find("1024.00 GiB") != std::string::npos);
  }
}

void a_block_freed_on_another_stream_waits_for_it() {
  fake::api.groups |= TB_GROUP_NATIVE;
  fake::api.stream_wrap = [](tb_driver *, int32_t, uint64_t handle, tb_stream **out) -> tb_status {
    if (!handle) return TB_INVALID_ARGUMENT;
    *out = reinterpret_cast<tb_stream *>(handle);
    return TB_OK;
  };
  reset();
  tb_stream *first = fake::new_stream(), *second = fake::new_stream();
  void *pointer = tb_torch_alloc(size, 0, native(first));
  ++second->queued;
  tb_torch_free(pointer, size, 0, native(second));
  void *again = tb_torch_alloc(size, 0, native(first));
  CHECK(again != pointer);
  tb_torch_record_stream(again, native(second));
  ++second->queued;
  tb_torch_free(again, size, 0, native(first));
  void *third = tb_torch_alloc(size, 0, native(first));
  CHECK(third != again && third != pointer);
  tb_torch_free(third, size, 0, native(first));
  fake::complete_all();
}

void a_fraction_limits_what_is_reserved() {
  reset();
  tb_torch_memory_fraction(0.25, 0);
  bool refused = false;
  try {
    tb_torch_free(tb_torch_alloc(static_cast<ssize_t>(fake::world.capacity / 2), 0, nullptr), 0, 0, nullptr);
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  tb_torch_memory_fraction(1, 0);
  CHECK(refused);
  tb_torch_free(tb_torch_alloc(static_cast<ssize_t>(fake::world.capacity / 2), 0, nullptr), 0, 0, nullptr);
  tb_torch_reset();
  CHECK(read().reserved_bytes[0].current == 0);
}

void a_pool_has_memory_of_its_own_for_its_streams() {
  reset();
  tb_stream *captured = fake::new_stream(), *other = fake::new_stream();
  const tb::allocator::PoolId id{0, 7};
  auto allocate = [](tb_stream *stream) { return tb_torch_alloc(size, 0, native(stream)); };
  auto total = [] { return read().allocated_bytes[0].current; };
  tb_torch_begin_allocate_to_pool(0, id, [=](void *stream) { return stream == native(captured); });
  void *inside = allocate(captured);
  CHECK(total() == size); // the device's total has the pools too
  void *outside = allocate(other);
  CHECK(total() == 2 * size);
  tb_torch_free(inside, size, 0, native(captured));
  CHECK(allocate(captured) == inside); // a replay of the graph needs the same addresses
  tb_torch_end_allocate_to_pool(0, id);
  void *after = allocate(captured);
  CHECK(total() == 3 * size);
  uint64_t used = fake::world.used;
  tb_torch_free(inside, size, 0, native(captured));
  tb_torch_begin_allocate_to_pool(0, id, [](void *) { return false; }); // a second graph shares the pool
  tb_torch_end_allocate_to_pool(0, id);
  tb_torch_release_pool(0, id);
  CHECK(fake::world.used == used); // the other graph still uses it
  tb_torch_release_pool(0, id);
  CHECK(fake::world.used < used);
  tb_torch_release_pool(0, id); // prints an error to stderr
  tb_torch_free(after, size, 0, native(captured));
  tb_torch_free(outside, size, 0, native(other));
  CHECK(total() == 0);
}

void an_address_of_somebody_else_changes_nothing() {
  int somewhere = 0;
  tb_torch_free(&somewhere, 4, 0, nullptr); // prints an error to stderr
  tb_torch_free(nullptr, 0, 0, nullptr);
  tb_torch_record_stream(&somewhere, nullptr);
  CHECK(tb_torch_alloc(0, 0, nullptr) == nullptr);
  CHECK(read().requested_bytes[0].current == 0);
}

} // namespace

int main() {
  fake::install();
  memory_without_a_driver_for_native_streams_comes_on_the_default_stream();
  out_of_memory_says_why();
  a_block_freed_on_another_stream_waits_for_it();
  a_fraction_limits_what_is_reserved();
  a_pool_has_memory_of_its_own_for_its_streams();
  an_address_of_somebody_else_changes_nothing();
  printf("ok\n");
}
