// VMM: addresses apart from memory.
#include "contract/child.h"
#include "contract/support/vmm_range.h"

namespace tb::contract::virtual_memory_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_VMM;

uint64_t free_memory(Kit &kit) {
  kit.need(kit.api().device_memory_info, "device_memory_info");
  uint64_t free = 0, total = 0;
  CHECK_OK(kit.api().device_memory_info(kit.self(), 0, &free, &total));
  return free;
}

TB_CASE(VMM, 01, needs, "vmm_granularity.1", "granularities are powers of two, the minimum at most the recommended") {
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    const Granularity unit(kit, device);
    CHECK(unit.minimum > 0);
    CHECK_EQUAL(unit.minimum & (unit.minimum - 1), uint64_t(0));
    CHECK_EQUAL(unit.recommended & (unit.recommended - 1), uint64_t(0));
    CHECK(unit.minimum <= unit.recommended);
  }
}

TB_CASE(VMM, 02, needs, "vmm_reserve.1", "a range larger than the memory is reserved, and costs none") {
  const Granularity unit(kit);
  const uint64_t before = kit.api().device_memory_info ? free_memory(kit) : 0;
  const uint64_t size = (2 * kit.info().total_memory / unit.minimum + 1) * unit.minimum;
  Range first(kit, size), second(kit, size);
  CHECK(first.at(size) <= second.at(0) || second.at(size) <= first.at(0));
  if (kit.api().device_memory_info) CHECK_EQUAL(free_memory(kit), before);
}

TB_CASE(VMM, 03, needs, "vmm_reserve.2 vmm_reserve.3", "a range is aligned as asked, with and without a hint") {
  const Granularity unit(kit);
  for (uint64_t alignment = unit.minimum; alignment <= 64 * unit.minimum; alignment *= 4) {
    Range range(kit, 2 * unit.minimum, alignment);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(range.at(0)) % alignment, uintptr_t(0));
    Range hinted(kit, 2 * unit.minimum, alignment, range.at(0)); // taken: another place
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(hinted.at(0)) % alignment, uintptr_t(0));
    CHECK(hinted.at(0) != range.at(0));
  }
}

TB_CASE(VMM, 04, needs, "vmm_set_access.1", "mapped memory with access is used by copies and sets, to the last byte") {
  const uint64_t size = 2 * Granularity(kit).minimum;
  Range range(kit, size);
  Physical physical(kit, size);
  range.map(0, size, physical);
  write_words(kit, range.at(0), std::vector<uint32_t>(size / 4, 104));
  set_word(kit, kit.default_stream(), range.at(size - 4), 4);
  const auto got = read_words(kit, range.at(0), size / 4);
  CHECK_EQUAL(got.front(), 104u);
  CHECK_EQUAL(got[got.size() - 2], 104u);
  CHECK_EQUAL(got.back(), 4u);
}

TB_CASE(VMM, 05, needs, "vmm_unmap.2", "addresses are mapped again, and show the memory's own bytes") {
  const uint64_t size = Granularity(kit).minimum;
  Range range(kit, size);
  Physical first(kit, size), second(kit, size);
  for (uint32_t round = 0; round < 4; ++round) {
    Physical &physical = round % 2 ? second : first;
    range.map(0, size, physical);
    if (round >= 2) CHECK_EQUAL(read_word(kit, range.at(0)), round - 2 + 10); // of two rounds ago
    write_words(kit, range.at(0), {round + 10});
    range.unmap(0, size);
  }
}

TB_CASE(VMM, 06, needs, "vmm_map.1", "memory mapped at two addresses shows the same bytes") {
  const uint64_t unit = Granularity(kit).minimum;
  Range range(kit, 4 * unit);
  Physical physical(kit, 2 * unit);
  range.map(0, 2 * unit, physical);
  range.map(2 * unit, 2 * unit, physical);
  write_words(kit, range.at(unit), {61});
  CHECK_EQUAL(read_word(kit, range.at(3 * unit)), 61u);
  write_words(kit, range.at(2 * unit), {62});
  CHECK_EQUAL(read_word(kit, range.at(0)), 62u);
}

TB_CASE(VMM, 07, needs, "vmm_map.1", "a mapping may begin inside the memory") {
  const uint64_t unit = Granularity(kit).minimum;
  Range range(kit, 4 * unit);
  Physical physical(kit, 2 * unit);
  range.map(0, 2 * unit, physical);
  write_words(kit, range.at(0), {71});
  write_words(kit, range.at(unit), {72});
  range.map(3 * unit, unit, physical, 0);
  CHECK_EQUAL(read_word(kit, range.at(3 * unit)), 71u);
  const tb_status status = kit.api().vmm_map(kit.self(), range.at(2 * unit), unit, physical, unit);
  if (status == TB_UNSUPPORTED) { // as in CUDA
    CHECK_STATUS(status, TB_UNSUPPORTED);
    throw NotOffered("memory is mapped from its start only");
  }
  CHECK_OK(status);
  range.note_mapping(2 * unit, unit);
  const int32_t device = 0;
  CHECK_OK(kit.api().vmm_set_access(kit.self(), range.at(2 * unit), unit, &device, 1, 3));
  CHECK_EQUAL(read_word(kit, range.at(2 * unit)), 72u);
}

TB_CASE(VMM, 08, needs, "vmm_map.3", "mapping over a mapping, or outside a reservation, is refused") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  Range range(kit, 4 * unit);
  Physical physical(kit, 2 * unit), other(kit, 2 * unit);
  range.map(unit, 2 * unit, physical);
  write_words(kit, range.at(unit), {81});
  CHECK_STATUS(api.vmm_map(self, range.at(unit), 2 * unit, other, 0), TB_ALREADY_EXISTS);
  CHECK_STATUS(api.vmm_map(self, range.at(0), 2 * unit, other, 0), TB_ALREADY_EXISTS);
  CHECK_STATUS(api.vmm_map(self, range.at(2 * unit), 2 * unit, other, 0), TB_ALREADY_EXISTS);
  CHECK_EQUAL(read_word(kit, range.at(unit)), 81u); // as it was
  Block block(kit, 4 * unit);
  uint8_t *aligned = block.data() + (unit - reinterpret_cast<uintptr_t>(block.data()) % unit) % unit;
  CHECK_STATUS(api.vmm_map(self, aligned, unit, other, 0), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.vmm_map(self, range.at(3 * unit), 2 * unit, other, 0), TB_INVALID_ARGUMENT); // past its end
}

TB_CASE(VMM, 09, needs, "vmm_release.1 vmm_release.2", "a range with mappings, or a part of one, is not released") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  Range range(kit, 4 * unit);
  {
    Physical physical(kit, unit);
    range.map(unit, unit, physical);
  }
  CHECK_STATUS(api.vmm_release(self, range.at(0), 4 * unit), TB_FAILED_PRECONDITION);
  write_words(kit, range.at(unit), {91}); // nothing changed
  CHECK_EQUAL(read_word(kit, range.at(unit)), 91u);
  range.unmap(unit, unit);
  CHECK_STATUS(api.vmm_release(self, range.at(0), 2 * unit), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.vmm_release(self, range.at(unit), 3 * unit), TB_INVALID_ARGUMENT);
}

TB_CASE(VMM, 10, needs, "vmm_create.1 vmm_destroy.1", "memory is charged, and lives until its last unmap") {
  const uint64_t unit = Granularity(kit).recommended;
  const uint64_t before = free_memory(kit);
  Range range(kit, 2 * unit);
  {
    Physical physical(kit, unit);
    CHECK(free_memory(kit) + unit <= before);
    range.map(0, unit, physical);
    range.map(unit, unit, physical);
    write_words(kit, range.at(0), {100});
  } // destroyed while mapped
  CHECK(free_memory(kit) + unit <= before);
  std::vector<std::unique_ptr<Physical>> others; // none of which may be given its pages
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<Physical>(kit, unit));
    Range elsewhere(kit, unit);
    elsewhere.map(0, unit, *others.back());
    write_words(kit, elsewhere.at(0), {7});
  }
  others.clear();
  CHECK_EQUAL(read_word(kit, range.at(0)), 100u);
  range.unmap(0, unit);
  CHECK_EQUAL(read_word(kit, range.at(unit)), 100u);
  CHECK(free_memory(kit) + unit <= before);
  range.unmap(unit, unit);
  CHECK_EQUAL(free_memory(kit), before);
}

TB_CASE(VMM, 11, needs, "vmm_create.2 E1", "a size that is no multiple of the granularity is refused") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  tb_physical *physical = nullptr;
  for (const uint64_t size : {uint64_t(1), unit - 1, unit + 1, 3 * unit / 2}) {
    CHECK_STATUS(api.vmm_create(self, 0, size, 0, &physical), TB_INVALID_ARGUMENT);
    CHECK(physical == nullptr);
  }
}

TB_CASE(VMM, 12, needs, "vmm_create.1 mem_alloc.3 E1",
        "more than the device has is out of memory, and the driver goes on") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  tb_physical *physical = nullptr;
  const uint64_t size = (kit.info().total_memory / unit + 2) * unit;
  CHECK_STATUS(api.vmm_create(self, 0, size, 0, &physical), TB_OUT_OF_MEMORY);
  CHECK(physical == nullptr);
  Physical small(kit, unit);
}

TB_CASE(VMM, 13, needs, "vmm_unmap.1", "a part of a mapping is not unmapped") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  Range range(kit, 4 * unit);
  Physical physical(kit, 2 * unit);
  range.map(unit, 2 * unit, physical);
  write_words(kit, range.at(2 * unit), {131});
  CHECK_STATUS(api.vmm_unmap(self, range.at(unit), unit), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.vmm_unmap(self, range.at(2 * unit), unit), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.vmm_unmap(self, range.at(0), 2 * unit), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(read_word(kit, range.at(2 * unit)), 131u);
}

TB_CASE(VMM, 14, needs, "vmm_set_access.2", "access for a range with a gap, or of an unknown kind, is refused") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  const int32_t device = 0;
  Range range(kit, 3 * unit);
  Physical physical(kit, unit);
  range.map(0, unit, physical);
  range.map(2 * unit, unit, physical);
  CHECK_STATUS(api.vmm_set_access(self, range.at(0), 3 * unit, &device, 1, 3), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.vmm_set_access(self, range.at(unit), unit, &device, 1, 3), TB_INVALID_ARGUMENT);
  for (const uint32_t access : {2u, 4u, 7u})
    CHECK_STATUS(api.vmm_set_access(self, range.at(0), unit, &device, 1, access), TB_INVALID_ARGUMENT);
  range.map(unit, unit, physical); // the gap is filled
  CHECK_OK(api.vmm_set_access(self, range.at(0), 3 * unit, &device, 1, 3));
}

TB_CASE(VMM, 15, needs | TB_GROUP_ASYNC, "vmm_map.1 T2", "a range grows while a stream works on it") {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  constexpr uint64_t steps = 16;
  Range range(kit, steps * unit);
  Stream stream(kit);
  for (uint64_t step = 0; step < steps; ++step) {
    {
      Physical physical(kit, unit);
      range.map(step * unit, unit, physical);
    }
    // Over all there is so far, and not waited for before the next step.
    CHECK_OK(api.mem_set(self, 0, stream, range.at(0), static_cast<uint32_t>(step), 4, (step + 1) * unit / 4));
  }
  stream.synchronize();
  for (uint64_t step = 0; step < steps; ++step) CHECK_EQUAL(read_word(kit, range.at(step * unit)), uint32_t(steps - 1));
}

// Uses memory that it may not use, after "ready": an error is sent, a crash ends the process.
TB_CHILD(vmm_forbidden) {
  auto [api, self] = driver_of(kit);
  const uint64_t unit = Granularity(kit).minimum;
  const std::string what = parent.receive();
  Range range(kit, unit);
  Physical physical(kit, unit);
  uint8_t byte = 0;
  const int32_t device = 0;
  if (what != "only reserved") {
    range.map(0, unit, physical);
    kit.to_device(range.at(0), &byte, 1);
    if (what == "without access") {
      CHECK_OK(api.vmm_set_access(self, range.at(0), unit, &device, 1, 0));
    } else {
      range.unmap(0, unit);
    }
    if (what == "freshly mapped") {
      CHECK_OK(api.vmm_map(self, range.at(0), unit, physical, 0));
      range.note_mapping(0, unit);
    }
  }
  expect_a_crash();
  parent.send("ready");
  tb_stream *stream = kit.default_stream();
  tb_status status = api.mem_copy(self, 0, stream, &byte, range.at(0), 1, TB_COPY_DEVICE_TO_HOST);
  if (status == TB_OK && kit.has_async()) status = api.stream_synchronize(self, stream);
  parent.send(status == TB_OK ? "read" : "refused");
}

void check_forbidden(Kit &kit, const char *what) {
  Child child(kit, "vmm_forbidden");
  child.send(what);
  CHECK_EQUAL(child.receive(), std::string("ready"));
  std::string then = "crashed";
  try {
    then = child.receive();
  } catch (const Failed &) { // it has ended
  }
  CHECK(then != "read");
  kit.state(std::string("a read of memory that is ") + what +
            (then == "crashed" ? " ends the process" : " is an error"));
}

TB_CASE(VMM, 16, needs, "vmm_map.2", "a fresh mapping has no access: its use is an error or ends the process") {
  check_forbidden(kit, "freshly mapped");
}

TB_CASE(VMM, 17, needs, "vmm_unmap.2 vmm_reserve.1", "addresses without memory cannot be read") {
  check_forbidden(kit, "only reserved");
  check_forbidden(kit, "unmapped again");
}

TB_CASE(VMM, 18, needs, "vmm_set_access.1", "access taken away is gone") { check_forbidden(kit, "without access"); }

} // namespace
} // namespace tb::contract::virtual_memory_cases
