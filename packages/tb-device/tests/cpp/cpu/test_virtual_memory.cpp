// Reservations, mappings, the same memory at two addresses, growing under running work.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {
constexpr uint64_t unit_bytes = uint64_t(2) << 20;
const int32_t device_total[] = {0, 1};

struct Range {
  OpenedDriver &driver;
  uint64_t size;
  char *start = nullptr;
  Range(OpenedDriver &driver, uint64_t size) : driver(driver), size(size) {
    void *address = nullptr;
    if (driver.api.vmm_reserve(driver.self, size, 0, nullptr, &address)) throw std::runtime_error(test::take_error());
    start = static_cast<char *>(address);
  }
  tb_status map(uint64_t offset, uint64_t bytes, tb_physical *physical, uint64_t physical_offset = 0) {
    return driver.api.vmm_map(driver.self, start + offset, bytes, physical, physical_offset);
  }
  tb_status access(uint64_t offset, uint64_t bytes, uint32_t rights, uint32_t devices = 1) {
    return driver.api.vmm_set_access(driver.self, start + offset, bytes, device_total, devices, rights);
  }
  tb_status unmap(uint64_t offset, uint64_t bytes) { return driver.api.vmm_unmap(driver.self, start + offset, bytes); }
  tb_status release() { return driver.api.vmm_release(driver.self, start, size); }
};

tb_physical *create(OpenedDriver &driver, uint64_t size, int32_t device = 0) {
  tb_physical *physical = nullptr;
  if (driver.api.vmm_create(driver.self, device, size, 0, &physical)) throw std::runtime_error(test::take_error());
  return physical;
}
uint64_t free_bytes(OpenedDriver &driver, int32_t device = 0) {
  uint64_t free = 0, total = 0;
  driver.api.device_memory_info(driver.self, device, &free, &total);
  return free;
}
// Whether a write ends the process; tried in a child.
bool write_kills(char *address) {
  const pid_t child = fork();
  if (child == 0) {
    for (int number : {SIGSEGV, SIGBUS}) signal(number, SIG_DFL); // a sanitizer's handler would print
    *static_cast<volatile char *>(address) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
} // namespace

CASE(the_granularity_is_a_power_of_two) {
  OpenedDriver driver;
  uint64_t minimum = 0, recommended = 0;
  CHECK_EQUAL(driver.api.vmm_granularity(driver.self, 0, &minimum, &recommended), TB_OK);
  CHECK_EQUAL(minimum, unit_bytes);
  CHECK(recommended >= minimum && recommended % minimum == 0);
}

CASE(reservations_follow_alignment_and_hint) {
  OpenedDriver driver;
  void *address = nullptr;
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, unit_bytes, uint64_t(64) << 20, nullptr, &address), TB_OK);
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(address) % (uint64_t(64) << 20), 0u);
  CHECK_EQUAL(driver.api.vmm_release(driver.self, address, unit_bytes), TB_OK);
  void *hinted = nullptr;
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, unit_bytes, 0, address, &hinted), TB_OK);
  CHECK(hinted != nullptr);
  CHECK_EQUAL(driver.api.vmm_release(driver.self, hinted, 2 * unit_bytes), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_release(driver.self, hinted, unit_bytes), TB_OK);
  CHECK_EQUAL(driver.api.vmm_release(driver.self, hinted, unit_bytes), TB_INVALID_ARGUMENT);
  void *untouched = &driver;
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, unit_bytes + 1, 0, nullptr, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, 0, 0, nullptr, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, unit_bytes, 3, nullptr, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, uint64_t(1) << 55, 0, nullptr, &untouched), TB_OUT_OF_MEMORY);
  CHECK(untouched == &driver);
}

CASE(mapped_memory_keeps_what_is_written_and_is_charged) {
  OpenedDriver driver(Options{{"memory", "8M"}});
  Range range(driver, 4 * unit_bytes);
  CHECK_EQUAL(free_bytes(driver), 4 * unit_bytes); // addresses cost no memory
  tb_physical *physical = create(driver, 2 * unit_bytes);
  CHECK_EQUAL(free_bytes(driver), 2 * unit_bytes);
  CHECK_EQUAL(range.map(unit_bytes, 2 * unit_bytes, physical), TB_OK);
  CHECK_EQUAL(range.access(unit_bytes, 2 * unit_bytes, 3), TB_OK);
  std::memset(range.start + unit_bytes, 0x3c, 2 * unit_bytes);
  CHECK_EQUAL(range.start[3 * unit_bytes - 1], 0x3c);
  tb_pointer_info info = {};
  info.struct_size = sizeof info;
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, range.start + unit_bytes + 5, &info), TB_OK);
  CHECK(info.base == range.start + unit_bytes && info.size == 2 * unit_bytes && info.kind == TB_POINTER_DEVICE);
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, range.start, &info), TB_NOT_FOUND);
  CHECK_EQUAL(range.unmap(unit_bytes, 2 * unit_bytes), TB_OK);
  CHECK_EQUAL(range.map(0, 2 * unit_bytes, physical), TB_OK); // at another address, with the same contents
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 1), TB_OK);
  CHECK_EQUAL(range.start[2 * unit_bytes - 1], 0x3c);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_EQUAL(range.start[5], 0x3c); // the memory lives until its last unmap
  CHECK_EQUAL(free_bytes(driver), 2 * unit_bytes);
  CHECK_EQUAL(range.unmap(0, 2 * unit_bytes), TB_OK);
  CHECK_EQUAL(free_bytes(driver), 4 * unit_bytes);
  CHECK_EQUAL(range.release(), TB_OK);
}

CASE(the_limit_holds_for_physical_memory) {
  OpenedDriver driver(Options{{"memory", "8M"}});
  tb_physical *physical = create(driver, 3 * unit_bytes), *untouched = nullptr;
  CHECK_EQUAL(driver.api.vmm_create(driver.self, 0, 2 * unit_bytes, 0, &untouched), TB_OUT_OF_MEMORY);
  CHECK(untouched == nullptr);
  const std::string text = test::take_error();
  CHECK(text.find("4.00 MiB") != std::string::npos && text.find("6.00 MiB") != std::string::npos);
  CHECK_EQUAL(driver.api.vmm_create(driver.self, 0, 100, 0, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_create(driver.self, 0, unit_bytes, 1, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  physical = create(driver, 4 * unit_bytes);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
}

CASE(freed_physical_memory_is_zero_when_it_comes_again) {
  OpenedDriver driver;
  Range range(driver, unit_bytes);
  for (int turn = 0; turn < 3; ++turn) {
    tb_physical *physical = create(driver, unit_bytes);
    CHECK_EQUAL(range.map(0, unit_bytes, physical), TB_OK);
    CHECK_EQUAL(range.access(0, unit_bytes, 3), TB_OK);
    for (uint64_t place = 0; place < unit_bytes; place += 4096) CHECK_EQUAL(range.start[place], 0);
    std::memset(range.start, 0x7f, unit_bytes);
    CHECK_EQUAL(range.unmap(0, unit_bytes), TB_OK);
    CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  }
  CHECK_EQUAL(range.release(), TB_OK);
}

CASE(one_physical_memory_appears_at_two_addresses) {
  OpenedDriver driver;
  Range range(driver, 4 * unit_bytes);
  tb_physical *physical = create(driver, 2 * unit_bytes);
  CHECK_EQUAL(range.map(0, 2 * unit_bytes, physical), TB_OK);
  CHECK_EQUAL(range.map(3 * unit_bytes, unit_bytes, physical, unit_bytes), TB_OK);
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 3), TB_OK);
  CHECK_EQUAL(range.access(3 * unit_bytes, unit_bytes, 3), TB_OK);
  std::strcpy(range.start + unit_bytes + 100, "both");
  CHECK_EQUAL(std::strcmp(range.start + 3 * unit_bytes + 100, "both"), 0);
  range.start[3 * unit_bytes] = 9;
  CHECK_EQUAL(range.start[unit_bytes], 9);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_EQUAL(range.unmap(0, 2 * unit_bytes), TB_OK);
  CHECK_EQUAL(range.start[3 * unit_bytes], 9);
  CHECK_EQUAL(range.unmap(3 * unit_bytes, unit_bytes), TB_OK);
  CHECK_EQUAL(range.release(), TB_OK);
}

CASE(wrong_ranges_are_refused) {
  OpenedDriver driver;
  Range range(driver, 4 * unit_bytes);
  tb_physical *physical = create(driver, 2 * unit_bytes);
  CHECK_EQUAL(range.map(0, 2 * unit_bytes, physical), TB_OK);
  CHECK_EQUAL(range.map(unit_bytes, unit_bytes, physical), TB_ALREADY_EXISTS);
  CHECK_EQUAL(range.map(2 * unit_bytes, 2 * unit_bytes, physical, unit_bytes), TB_OUT_OF_RANGE);
  CHECK_EQUAL(range.map(2 * unit_bytes, unit_bytes, physical, 3), TB_OUT_OF_RANGE);
  CHECK_EQUAL(range.map(3 * unit_bytes, 2 * unit_bytes, physical), TB_INVALID_ARGUMENT); // beyond the reservation
  CHECK_EQUAL(range.map(2 * unit_bytes + 1, unit_bytes, physical), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.unmap(0, unit_bytes), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.unmap(unit_bytes, unit_bytes), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.unmap(2 * unit_bytes, unit_bytes), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.access(0, 3 * unit_bytes, 3), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 2), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 3, 2), TB_OUT_OF_RANGE); // there is only one device
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 3, 0), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(range.release(), TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("unmap") != std::string::npos);
  CHECK_EQUAL(range.unmap(0, 2 * unit_bytes), TB_OK);
  CHECK_EQUAL(range.release(), TB_OK);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
}

CASE(several_mappings_go_in_one_unmap) {
  OpenedDriver driver;
  Range range(driver, 4 * unit_bytes);
  tb_physical *physical = create(driver, unit_bytes);
  for (uint64_t place : {0, 1, 3}) CHECK_EQUAL(range.map(place * unit_bytes, unit_bytes, physical), TB_OK);
  CHECK_EQUAL(range.access(0, 2 * unit_bytes, 3), TB_OK);
  CHECK_EQUAL(range.unmap(0, 4 * unit_bytes), TB_OK);
  CHECK_EQUAL(range.map(0, unit_bytes, physical), TB_OK);
  CHECK_EQUAL(range.unmap(0, unit_bytes), TB_OK);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_EQUAL(range.release(), TB_OK);
}

CASE(rights_are_those_that_were_set) {
  OpenedDriver driver(Options{{"devices", "2"}});
  Range range(driver, unit_bytes);
  CHECK(write_kills(range.start)); // reserved, not mapped
  tb_physical *physical = create(driver, unit_bytes, 1);
  CHECK_EQUAL(range.map(0, unit_bytes, physical), TB_OK);
  CHECK(write_kills(range.start)); // a fresh mapping has no access
  CHECK_EQUAL(range.access(0, unit_bytes, 1), TB_OK);
  CHECK(write_kills(range.start));
  CHECK_EQUAL(range.access(0, unit_bytes, 3, 2), TB_OK); // devices 0 and 1
  CHECK(!write_kills(range.start));
  CHECK_EQUAL(range.access(0, unit_bytes, 0, 1), TB_OK); // device 1 keeps its access, and the pages are the same
  CHECK(!write_kills(range.start));
  CHECK_EQUAL(range.unmap(0, unit_bytes), TB_OK);
  CHECK(write_kills(range.start));
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_EQUAL(range.release(), TB_OK);
}

CASE(a_range_grows_while_a_stream_works_in_it) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  constexpr uint64_t parts = 16;
  Range range(driver, parts * unit_bytes);
  for (uint64_t part = 0; part < parts; ++part) {
    tb_physical *physical = create(driver, unit_bytes);
    CHECK_EQUAL(range.map(part * unit_bytes, unit_bytes, physical), TB_OK);
    CHECK_EQUAL(range.access(part * unit_bytes, unit_bytes, 3), TB_OK);
    CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
    CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, range.start, static_cast<uint32_t>(part + 1), 1,
                                   (part + 1) * unit_bytes),
                TB_OK);
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  for (uint64_t part = 0; part < parts; ++part) CHECK_EQUAL(range.start[part * unit_bytes + 1], int(parts));
  CHECK_EQUAL(range.unmap(0, parts * unit_bytes), TB_OK);
  CHECK_EQUAL(range.release(), TB_OK);
}
