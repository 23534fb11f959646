// Native handles of streams, and second handles on one stream.
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {
uint64_t native(OpenedDriver &driver, tb_stream *stream) {
  uint64_t out = 0;
  if (driver.api.stream_native(driver.self, stream, &out)) throw std::runtime_error(test::take_error());
  return out;
}
} // namespace

CASE(a_wrapper_is_another_handle_of_the_same_stream) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream(), *wrapper = nullptr, *second = nullptr;
  const uint64_t number = native(driver, stream);
  CHECK_EQUAL(native(driver, stream), number);
  CHECK(native(driver, driver.default_stream()) != number);
  CHECK_EQUAL(driver.api.stream_wrap(driver.self, 0, number, &wrapper), TB_OK);
  CHECK_EQUAL(driver.api.stream_wrap(driver.self, 0, native(driver, wrapper), &second), TB_OK);
  CHECK(wrapper != stream && second != wrapper);
  CHECK_EQUAL(native(driver, second), number);
  std::vector<int> order;
  for (int turn = 0; turn < 300; ++turn) {
    driver.submit(turn % 3 == 0 ? stream : turn % 3 == 1 ? wrapper : second, [&order, turn] { order.push_back(turn); });
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, wrapper), TB_OK);
  CHECK_EQUAL(order.size(), 300u);
  for (int turn = 0; turn < 300; ++turn) CHECK_EQUAL(order[static_cast<size_t>(turn)], turn);
  for (tb_stream *one : {wrapper, second}) CHECK_EQUAL(driver.api.stream_destroy(driver.self, one), TB_OK);
  driver.submit(stream, [&order] { order.clear(); });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK(order.empty());
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(a_wrapper_of_the_default_stream_may_be_destroyed_and_is_counted) {
  OpenedDriver driver;
  tb_stream *wrapper = nullptr;
  CHECK_EQUAL(driver.api.stream_wrap(driver.self, 0, native(driver, driver.default_stream()), &wrapper), TB_OK);
  CHECK_EQUAL(driver.api.close(driver.self), TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("1 streams") != std::string::npos);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, wrapper), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, driver.default_stream()), TB_INVALID_ARGUMENT);
}

CASE(handles_of_no_live_stream_of_the_device_are_refused) {
  OpenedDriver driver(Options{{"devices", "2"}}), stranger;
  tb_stream *gone = driver.create_stream();
  const uint64_t number = native(driver, gone);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, gone), TB_OK);
  tb_stream *untouched = reinterpret_cast<tb_stream *>(&driver), *out = untouched;
  for (uint64_t bogus : {uint64_t(0), uint64_t(0xdeadbeef), UINT64_MAX, number, reinterpret_cast<uint64_t>(&driver),
                         native(stranger, stranger.default_stream())})
    CHECK_EQUAL(driver.api.stream_wrap(driver.self, 0, bogus, &out), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.stream_wrap(driver.self, 1, native(driver, driver.default_stream(0)), &out),
              TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("device 0") != std::string::npos);
  CHECK(out == untouched);
}

CASE(a_stream_with_wrappers_lives_until_the_last_is_destroyed) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream(), *wrapper = nullptr;
  CHECK_EQUAL(driver.api.stream_wrap(driver.self, 0, native(driver, stream), &wrapper), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  int ran = 0;
  driver.submit(wrapper, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, wrapper), TB_OK);
  CHECK_EQUAL(ran, 1);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, wrapper), TB_OK);
}
