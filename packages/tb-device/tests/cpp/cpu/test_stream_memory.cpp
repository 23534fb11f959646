// Memory that is allocated and freed in stream order.
#include <cstring>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {
uint64_t free_bytes(OpenedDriver &driver, int32_t device = 0) {
  uint64_t free = 0, total = 0;
  if (driver.api.device_memory_info(driver.self, device, &free, &total)) throw std::runtime_error(test::take_error());
  return free;
}
} // namespace

CASE(a_free_takes_effect_when_the_stream_has_passed_it) {
  OpenedDriver driver(Options{{"memory", "1M"}});
  tb_stream *stream = driver.create_stream();
  const uint64_t before = free_bytes(driver);
  void *block = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_async(driver.self, stream, 100000, 0, &block), TB_OK);
  CHECK(free_bytes(driver) <= before - 100000);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, block, 0x5a, 1, 100000), TB_OK);
  int seen = 0;
  driver.submit(stream, [block, &seen] { seen = static_cast<char *>(block)[99999]; });
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, stream, block), TB_OK);
  CHECK(free_bytes(driver) <= before - 100000);
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(seen, 0x5a);
  CHECK_EQUAL(free_bytes(driver), before);
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, stream, nullptr), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(a_block_is_freed_once_and_on_its_own_device) {
  OpenedDriver driver(Options{{"devices", "2"}});
  tb_stream *stream = driver.default_stream(0);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  void *block = driver.allocate(64), *other = driver.allocate(64, 1);
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, stream, other), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("device 1") != std::string::npos);
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, stream, block), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, stream, block), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("free already") != std::string::npos);
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 1, other), TB_OK);
}

CASE(too_much_is_out_of_memory_and_unknown_flags_are_refused) {
  OpenedDriver driver(Options{{"memory", "1M"}});
  void *untouched = &driver;
  tb_stream *stream = driver.default_stream();
  CHECK_EQUAL(driver.api.mem_alloc_async(driver.self, stream, 2 << 20, 0, &untouched), TB_OUT_OF_MEMORY);
  CHECK_EQUAL(driver.api.mem_alloc_async(driver.self, stream, 64, 1, &untouched), TB_INVALID_ARGUMENT);
  CHECK(untouched == &driver);
}

CASE(close_completes_frees_that_are_queued) {
  OpenedDriver driver; // its destructor ends the program if the close is refused
  void *block = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_async(driver.self, driver.default_stream(), 1 << 20, 0, &block), TB_OK);
  driver.submit(driver.default_stream(), [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  CHECK_EQUAL(driver.api.mem_free_async(driver.self, driver.default_stream(), block), TB_OK);
}
