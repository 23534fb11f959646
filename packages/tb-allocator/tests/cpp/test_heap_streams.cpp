// test_heap_streams.cpp -- memory and streams: when memory is reused, and when the allocator waits.
#include <chrono>

#include "heap_fixture.h"

namespace {

constexpr uint64_t piece = uint64_t{64} << 10; // too large for a thread's cache

void memory_is_reused_at_once_on_its_own_stream_only() {
  tb_stream *one = fake::new_stream(), *two = fake::new_stream();
  one->queued = 5; // work that is not done yet
  Block first = make(1000, one);
  table.deallocate(first.block);
  Block other = make(1000, two);
  CHECK(other.pointer != first.pointer);
  Block again = make(1000, one);
  CHECK(again.pointer == first.pointer);
  table.deallocate(other.block);
  table.deallocate(again.block);
  reset();
}

void null_is_the_default_stream() {
  Block first = make(1000, nullptr);
  table.deallocate(first.block);
  Block again = make(1000, &fake::world.standard);
  CHECK(again.pointer == first.pointer);
  table.deallocate(again.block);
  reset();
}

void a_recorded_block_waits_for_its_streams() {
  tb_stream *own = fake::new_stream(), *user = fake::new_stream(), *second = fake::new_stream();
  Block block = make(1000, own);
  for (int twice = 0; twice < 2; ++twice) CHECK(table.record_stream(block.block, user) == TB_OK);
  CHECK(table.record_stream(block.block, second) == TB_OK);
  CHECK(table.record_stream(block.block, own) == TB_OK);
  user->queued = 3;
  second->queued = 1;
  int records = fake::world.event_records;
  table.deallocate(block.block);
  CHECK(fake::world.event_records == records + 2); // one event for each stream
  CHECK(read().allocation[0].current == 0 && read().active[0].current == 1);
  user->queued = 9; // work after the free does not delay reuse
  Block other = make(1000, own);
  CHECK(other.pointer != block.pointer);
  user->done = 3;
  Block third = make(1000, own);
  CHECK(third.pointer != block.pointer); // the second stream still uses it
  second->done = 1;
  Block missing = make(2 * MiB, own); // no cached block fits, so the allocator queries all pending blocks
  CHECK(read().active[0].current == 3);
  Block fourth = make(1000, own);
  CHECK(fourth.pointer == block.pointer);
  for (Block one : {other, third, missing, fourth}) table.deallocate(one.block);
  reset();
}

// Frees a block of `own` while the recorded stream `user` still uses it.
void leave_pending(tb_stream *own, tb_stream *user, uint64_t size) {
  user->queued = user->done + 1;
  Block block = make(size, own);
  CHECK(table.record_stream(block.block, user) == TB_OK);
  table.deallocate(block.block);
}

void pending_streams_cost_cached_allocations_no_query() {
  tb_stream *own = fake::new_stream();
  std::vector<tb_stream *> users;
  for (int i = 0; i < 16; ++i) leave_pending(own, users.emplace_back(fake::new_stream()), 3 * MiB);
  table.deallocate(make(600, own).block);
  int queries = fake::world.event_queries, records = fake::world.event_records;
  for (int i = 0; i < 10000; ++i) table.deallocate(make(600, own).block);
  CHECK(fake::world.event_queries == queries && read().active[0].current == 16);
  // Allocations that are too large for a thread's cache query events from time to time; only time decides how often.
  table.deallocate(make(piece, own).block);
  queries = fake::world.event_queries;
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) table.deallocate(make(piece, own).block);
  auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  CHECK(fake::world.event_queries - queries <= 4 * (9 + passed.count()) && fake::world.event_records == records);
  for (tb_stream *user : users) user->done = user->queued.load();
  begin = std::chrono::steady_clock::now();
  while (read().active[0].current) {
    table.deallocate(make(piece, own).block); // finds the completed events although there is no shortage
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  }
  queries = fake::world.event_queries;
  table.deallocate(make(piece, own).block);
  CHECK(fake::world.event_queries == queries); // without pending blocks no event is queried
  reset();
}

void without_an_event_deallocate_waits() {
  tb_stream *own = fake::new_stream(), *user = fake::new_stream(), *fresh = fake::new_stream();
  fresh->queued = user->queued = 4;
  Block block = make(1000, own);
  CHECK(table.record_stream(block.block, fresh) == TB_OK);
  fake::world.fail_event_create = 3; // calls of all devices count
  table.deallocate(block.block);
  CHECK(fake::world.fail_event_create == 1);
  fake::world.fail_event_create = 0;
  CHECK(fresh->done == 4);
  Block again = make(1000, own);
  CHECK(again.pointer == block.pointer);
  table.deallocate(again.block);
  reset();
}

void a_stream_of_another_device_gets_an_event_of_its_device() {
  tb_stream *own = fake::new_stream(0), *abroad = fake::new_stream(1);
  for (int repeat = 0; repeat < 2; ++repeat) {
    uint64_t done = abroad->done, position = ++abroad->queued;
    Block block = make(1000, own);
    CHECK(table.record_stream(block.block, abroad) == TB_OK);
    table.deallocate(block.block);
    CHECK(read().active[0].current == 1); // the block is pending, so there is an event
    CHECK(abroad->done == done);
    abroad->done = position;
    reset();
  }
}

void the_failure_of_queued_work_is_reported_by_the_next_allocation() {
  tb_stream *own = fake::new_stream(), *user = fake::new_stream();
  user->queued = 1;
  Block block = make(1000, own);
  CHECK(table.record_stream(block.block, user) == TB_OK);
  table.deallocate(block.block);
  fake::world.query_failure = TB_INTERNAL;
  Block out{&out, nullptr};
  CHECK(table.allocate(0, 30 * MiB, own, &out.pointer, &out.block) == TB_INTERNAL); // queries events: no block fits
  CHECK(out.pointer == &out);
  tb_error error{};
  CHECK(tb::host.take_error(&error) && std::string(error.text) == "a queued kernel failed");
  Block again = make(1000, own);
  CHECK(again.pointer == block.pointer); // the failed work is over
  table.deallocate(again.block);
  reset();
}

} // namespace

int main() {
  fake::install();
  memory_is_reused_at_once_on_its_own_stream_only();
  null_is_the_default_stream();
  a_recorded_block_waits_for_its_streams();
  pending_streams_cost_cached_allocations_no_query();
  without_an_event_deallocate_waits();
  a_stream_of_another_device_gets_an_event_of_its_device();
  the_failure_of_queued_work_is_reported_by_the_next_allocation();
}
