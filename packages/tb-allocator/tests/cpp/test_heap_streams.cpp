// test_heap_streams.cpp -- memory and streams: what is reused when, and what waits for what.
#include "heap_fixture.h"

namespace {

void memory_is_reused_at_once_on_its_own_stream_only() {
  tb_stream *one = fake::new_stream(), *two = fake::new_stream();
  one->queued = 5; // work in flight
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
  CHECK(fake::world.event_records == records + 2); // one a stream
  CHECK(read().allocation[0].current == 0 && read().active[0].current == 1);
  user->queued = 9; // later work does not count
  Block other = make(1000, own);
  CHECK(other.pointer != block.pointer);
  user->done = 3;
  Block third = make(1000, own);
  CHECK(third.pointer != block.pointer); // the second stream still uses it
  second->done = 1;
  Block fourth = make(1000, own);
  CHECK(fourth.pointer == block.pointer);
  for (Block one : {other, third, fourth}) table.deallocate(one.block);
  reset();
}

void an_allocation_looks_at_few_events() {
  tb_stream *own = fake::new_stream();
  std::vector<tb_stream *> users;
  for (int i = 0; i < 30; ++i) {
    users.push_back(fake::new_stream());
    users.back()->queued = 1;
    Block block = make(600, own);
    CHECK(table.record_stream(block.block, users.back()) == TB_OK);
    table.deallocate(block.block);
  }
  Block warm = make(100000, own); // so that the next one is cached
  table.deallocate(warm.block);
  int queries = fake::world.event_queries;
  Block block = make(100000, own);
  CHECK(fake::world.event_queries - queries <= 4);
  table.deallocate(block.block);
  for (tb_stream *user : users) user->done = 1;
  queries = fake::world.event_queries;
  reset();
  Block without = make(100, own);
  queries = fake::world.event_queries;
  table.deallocate(without.block);
  table.deallocate(make(100, own).block);
  CHECK(fake::world.event_queries == queries); // nothing pending, nothing asked
  reset();
}

void pending_streams_cost_cached_allocations_next_to_no_queries() {
  tb_stream *own = fake::new_stream();
  std::vector<tb_stream *> users;
  for (int i = 0; i < 16; ++i) {
    users.push_back(fake::new_stream());
    users.back()->queued = 1;
    Block block = make(3 * MiB, own);
    CHECK(table.record_stream(block.block, users.back()) == TB_OK);
    table.deallocate(block.block);
  }
  Block warm = make(600, own);
  table.deallocate(warm.block);
  int queries = fake::world.event_queries, records = fake::world.event_records;
  for (int i = 0; i < 1000; ++i) table.deallocate(make(600, own).block);
  CHECK(fake::world.event_queries - queries < 100 && fake::world.event_records == records);
  for (tb_stream *user : users) user->done = 1;
  queries = fake::world.event_queries;
  for (int i = 0; i < 1000; ++i) table.deallocate(make(600, own).block);
  CHECK(read().active[0].current == 0); // seen all the same
  reset();
}

void without_an_event_deallocate_waits() {
  tb_stream *own = fake::new_stream(), *user = fake::new_stream(), *fresh = fake::new_stream();
  fresh->queued = user->queued = 4;
  Block block = make(1000, own);
  CHECK(table.record_stream(block.block, fresh) == TB_OK);
  fake::world.fail_event_create = 3; // on every device
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
    CHECK(read().active[0].current == 1); // it waits, so there is an event
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
  CHECK(table.allocate(0, 1000, own, &out.pointer, &out.block) == TB_INTERNAL);
  CHECK(out.pointer == &out);
  tb_error error{};
  CHECK(tb::host.take_error(&error) && std::string(error.text) == "a queued kernel failed");
  Block again = make(1000, own);
  CHECK(again.pointer == block.pointer); // over, if badly
  table.deallocate(again.block);
  reset();
}

} // namespace

int main() {
  fake::install();
  memory_is_reused_at_once_on_its_own_stream_only();
  null_is_the_default_stream();
  a_recorded_block_waits_for_its_streams();
  an_allocation_looks_at_few_events();
  pending_streams_cost_cached_allocations_next_to_no_queries();
  without_an_event_deallocate_waits();
  a_stream_of_another_device_gets_an_event_of_its_device();
  the_failure_of_queued_work_is_reported_by_the_next_allocation();
}
