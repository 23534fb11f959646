// Chosen calls fail, late or hang, and nothing else changes.
#include <chrono>
#include <thread>
#include <vector>

#include "layers/fault/fault.h"
#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

using tb::layers::Fault;
using test::LayeredDriver;

namespace {

tb_status ask(LayeredDriver &driver) {
  uint64_t free = 0, total = 0;
  return driver.api.device_memory_info(driver.self, 0, &free, &total);
}

double seconds(auto &&body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

CASE(functions_that_the_driver_lacks_stay_null_and_others_are_wrapped) {
  test::OpenedDriver plain;
  LayeredDriver driver("fault");
  const auto functions = [](const tb_driver_api &api) {
    std::vector<void *> out((sizeof api - offsetof(tb_driver_api, close)) / sizeof(void *));
    std::memcpy(out.data(), reinterpret_cast<const char *>(&api) + offsetof(tb_driver_api, close),
                out.size() * sizeof(void *));
    return out;
  };
  const auto own = functions(plain.api), wrapped = functions(driver.api);
  for (size_t place = 0; place < own.size(); ++place) {
    CHECK_EQUAL(own[place] == nullptr, wrapped[place] == nullptr);
    CHECK(!own[place] || own[place] != wrapped[place]);
  }
}

CASE(an_extension_that_no_layer_knows_is_refused_and_its_table_untouched) {
  LayeredDriver driver("fault");
  unsigned char table[64];
  std::memset(table, 0x5A, sizeof table);
  CHECK(driver.api.get_extension);
  CHECK_REFUSED(driver.api.get_extension(driver.self, "vendor.secret", 1, table, sizeof table), TB_NOT_FOUND,
                "vendor.secret", "the layer fault cannot wrap the extension");
  for (const unsigned char byte : table) CHECK_EQUAL(byte, 0x5A);
}

CASE(nth_counts_the_chosen_functions_from_zero) {
  LayeredDriver driver("fault:nth=2,slot=device_memory_info|mem_alloc,status=14");
  int32_t count = 0;
  CHECK_EQUAL(driver.api.device_count(driver.self, &count), TB_OK); // the layer does not count this call
  CHECK_EQUAL(ask(driver), TB_OK);
  CHECK_EQUAL(ask(driver), TB_OK);
  CHECK_REFUSED(ask(driver), TB_UNAVAILABLE, "device_memory_info", "call 2");
  CHECK_EQUAL(ask(driver), TB_OK);
  CHECK_EQUAL(driver.layer<Fault>().calls(), 4u);
  CHECK_EQUAL(driver.layer<Fault>().fired(), 1u);
}

CASE(a_failing_call_leaves_its_result_untouched_even_with_after) {
  LayeredDriver driver("fault:nth=0,slot=mem_alloc,after=1");
  char mark = 0;
  void *out = &mark;
  CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 64, 0, &out), TB_INTERNAL);
  CHECK(out == &mark);
}

CASE(after_does_the_work_and_then_fails) {
  LayeredDriver driver("fault");
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<unsigned char *>(driver.allocate(4));
  driver.layer<Fault>().arm("nth=0,slot=mem_set,after=1");
  CHECK_REFUSED(driver.set(stream, block, 4), TB_INTERNAL, "took place");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(block[3], 0);
  driver.layer<Fault>().arm("nth=0,slot=mem_set");
  CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, block, 7, 1, 4), TB_INTERNAL);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(block[3], 0);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(close_fails_only_when_it_is_named_and_then_does_not_happen) {
  LayeredDriver driver("fault:every=1");
  driver.layer<Fault>().arm("nth=0,slot=close,after=1");
  CHECK_EQUAL(driver.api.close(driver.self), TB_INTERNAL);
  CHECK_EQUAL(ask(driver), TB_OK);
  driver.layer<Fault>().arm("every=1"); // `every` does not include close, which the destructor calls
}

CASE(delay_comes_late_and_succeeds) {
  LayeredDriver driver("fault:delay=20000,slot=device_memory_info");
  tb_status status = TB_INTERNAL;
  CHECK(seconds([&] { status = ask(driver); }) >= 0.02);
  CHECK_EQUAL(status, TB_OK);
}

CASE(a_hanging_call_ends_when_the_layer_is_disarmed) {
  LayeredDriver driver("fault:hang=1000,slot=device_memory_info");
  std::thread hanging([&] { (void)ask(driver); });
  while (driver.layer<Fault>().fired() == 0) std::this_thread::yield();
  driver.layer<Fault>().disarm();
  hanging.join();
  CHECK_EQUAL(ask(driver), TB_OK);
}

CASE(arming_while_others_call_is_safe) {
  LayeredDriver driver("fault");
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int place = 0; place < 4; ++place)
    threads.emplace_back([&] {
      while (!done.load()) (void)ask(driver);
    });
  for (int round = 0; round < 200; ++round) driver.layer<Fault>().arm("probability=0.5,seed=" + std::to_string(round));
  driver.layer<Fault>().disarm();
  done = true;
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(ask(driver), TB_OK);
}

CASE(calls_pass_the_layers_in_the_written_order) {
  LayeredDriver driver("leak,fault:nth=0,status=8,fault:nth=1,status=14");
  const auto names = tb::layers::names(driver.self);
  CHECK_EQUAL(names.size(), 3u);
  CHECK_EQUAL(ask(driver), TB_OUT_OF_MEMORY);
  CHECK_EQUAL(ask(driver), TB_OK);          // call 0 of the inner layer, which the first call did not reach
  CHECK_EQUAL(ask(driver), TB_UNAVAILABLE); // call 1 of the inner layer
}

CASE(a_wrong_spec_leaves_the_table_as_it_was) {
  test::OpenedDriver driver;
  const tb_driver_api before = driver.api;
  tb_driver *self = driver.self;
  std::string problem;
  CHECK_EQUAL(tb::layers::apply("leak,fault:ntth=1", &test::host(), &driver.api, &driver.self, &problem),
              TB_INVALID_ARGUMENT);
  CHECK(problem.find("ntth") != std::string::npos);
  CHECK_EQUAL(std::memcmp(&before, &driver.api, sizeof before), 0);
  CHECK(self == driver.self);
}
