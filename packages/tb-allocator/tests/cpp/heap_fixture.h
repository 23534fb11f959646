// heap_fixture.h -- the allocator's table over the fake driver, and functions that its tests share.
#pragma once
#include <cstring>
#include <string>

#include "fake_driver.h"
#include "heap/heap.h"
#include "table/table.h"

namespace {

using tb::allocator::MiB;
const tb_allocator_table &table = tb::allocator::allocator_table;

struct Block {
  void *pointer = nullptr;
  tb_block *block = nullptr;
};

[[maybe_unused]] Block make(uint64_t size, tb_stream *stream = nullptr, int32_t device = 0) {
  Block made;
  CHECK(table.allocate(device, size, stream, &made.pointer, &made.block) == TB_OK);
  return made;
}

[[maybe_unused]] tb_allocator_statistics read(int32_t device = 0) {
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  CHECK(table.statistics(device, &all) == TB_OK);
  return all;
}

[[maybe_unused]] void reset() {
  fake::complete_all();
  CHECK(table.empty_cache(-1) == TB_OK);
  CHECK(read().reserved_bytes[0].current == 0);
  CHECK(table.reset_peak(0) == TB_OK && table.reset_accumulated(0) == TB_OK);
}

} // namespace
