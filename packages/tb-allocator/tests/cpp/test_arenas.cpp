// test_arenas.cpp -- arenas of the table: their memory is separate, threads enter them, and graphs fix their addresses.
#include <thread>

#include "heap_fixture.h"

namespace {

tb_arena *make_arena(uint64_t flags, uint64_t limit = UINT64_MAX) {
  tb_arena *arena = nullptr;
  CHECK(table.arena_create(0, limit, flags, &arena) == TB_OK);
  return arena;
}

Block make_in(tb_arena *arena, uint64_t size, tb_stream *stream = nullptr) {
  Block made;
  CHECK(table.arena_allocate(arena, size, stream, &made.pointer, &made.block) == TB_OK);
  return made;
}

tb_allocator_statistics of(tb_arena *arena) {
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  CHECK(table.arena_statistics(arena, &all) == TB_OK);
  return all;
}
int64_t reserved(tb_arena *arena) { return of(arena).reserved_bytes[0].current; }
int64_t allocated(tb_arena *arena) { return of(arena).allocated_bytes[0].current; }

void a_thread_in_an_arena_takes_from_it_and_others_do_not() {
  tb_arena *arena = make_arena(0);
  CHECK(table.arena_enter(arena) == nullptr);
  Block inside = make(MiB), other_device = make(MiB, nullptr, 1);
  Block outside;
  std::thread([&] { outside = make(MiB); }).join();
  CHECK(reserved(arena) > 0 && read(1).allocated_bytes[0].current == static_cast<int64_t>(MiB));
  CHECK(read().allocated_bytes[0].current == static_cast<int64_t>(2 * MiB)); // with the other thread's
  CHECK(allocated(arena) == static_cast<int64_t>(MiB));
  tb_arena *inner = make_arena(0);
  CHECK(table.arena_enter(inner) == arena && table.arena_enter(arena) == inner);
  CHECK(table.arena_enter(nullptr) == arena);
  CHECK(table.find(inside.pointer) == inside.block);
  for (Block &block : {std::ref(inside), std::ref(other_device), std::ref(outside)}) table.deallocate(block.block);
  table.arena_destroy(arena);
  table.arena_destroy(inner);
  CHECK(table.empty_cache(-1) == TB_OK);
  CHECK(fake::world.used == 0);
}

void a_fixed_arena_keeps_every_address_mapped_and_records_no_event() {
  tb_arena *arena = make_arena(TB_ARENA_FIXED);
  tb_stream *first = fake::new_stream(), *second = fake::new_stream();
  int records = fake::world.event_records;
  static int unmaps;
  unmaps = 0;
  fake::world.on_unmap = [](char *, uint64_t) { ++unmaps; };
  Block one = make_in(arena, 6 * MiB, first), two = make_in(arena, 6 * MiB, first);
  table.deallocate(one.block);
  Block larger = make_in(arena, 9 * MiB, first); // it fits nowhere; an ordinary arena would remap pages for it
  Block again = make_in(arena, 6 * MiB, first);
  CHECK(again.pointer == one.pointer);
  CHECK(table.record_stream(two.block, second) == TB_OK);
  table.deallocate(two.block);
  first->queued += 1;
  Block third = make_in(arena, 6 * MiB, first);
  CHECK(third.pointer != two.pointer); // the other stream may use it at every launch of the graph
  int64_t held = reserved(arena);
  for (Block &block : {std::ref(again), std::ref(larger), std::ref(third)}) table.deallocate(block.block);
  CHECK(table.empty_cache(-1) == TB_OK && reserved(arena) == held && unmaps == 0);
  CHECK(fake::world.event_records == records);
  fake::complete_all();
  table.arena_destroy(arena);
  fake::world.on_unmap = nullptr;
  CHECK(fake::world.used == 0 && unmaps > 0);
}

void a_block_outlives_its_arena_and_its_memory_follows() {
  tb_arena *arena = make_arena(0);
  Block block = make_in(arena, 3 * MiB);
  table.arena_destroy(arena);
  memset(block.pointer, 1, 3 * MiB);
  CHECK(fake::world.used > 0);
  table.deallocate(block.block);
  table.arena_destroy(make_arena(0)); // destroying another arena also frees this one
  CHECK(fake::world.used == 0);
}

void a_limit_holds_and_unknown_flags_and_devices_are_errors() {
  tb_arena *arena = make_arena(0, 4 * MiB);
  Block block = make_in(arena, 3 * MiB);
  Block more;
  CHECK(table.arena_allocate(arena, 3 * MiB, nullptr, &more.pointer, &more.block) == TB_OUT_OF_MEMORY);
  table.deallocate(block.block);
  table.arena_destroy(arena);
  CHECK(table.arena_create(0, UINT64_MAX, 64, &arena) == TB_INVALID_ARGUMENT && !arena);
  CHECK(table.arena_create(7, UINT64_MAX, 0, &arena) == TB_OUT_OF_RANGE);
  CHECK(table.arena_create(-1, UINT64_MAX, 0, &arena) == TB_OUT_OF_RANGE);
}

} // namespace

int main() {
  fake::install();
  a_thread_in_an_arena_takes_from_it_and_others_do_not();
  a_fixed_arena_keeps_every_address_mapped_and_records_no_event();
  a_block_outlives_its_arena_and_its_memory_follows();
  a_limit_holds_and_unknown_flags_and_devices_are_errors();
}
