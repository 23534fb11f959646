// Failures of queued work: reported once, with the operation's name, and the device stays usable. What was queued behind
// them before the report is left out.
#include <memory>
#include <stdexcept>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {
tb_status fail_with(const tb_closure_context *context, tb_status status, const char *text) {
  std::snprintf(context->error_text, context->error_capacity, "%s", text);
  return status;
}
} // namespace

CASE(an_exception_is_reported_once_with_the_name_of_the_operation) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  int ran = 0;
  driver.submit(stream, []() -> void { throw std::runtime_error("no such luck"); });
  driver.submit(stream, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_UNKNOWN);
  CHECK(test::take_error() == "test: no such luck");
  CHECK_EQUAL(ran, 0);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_OK);
  driver.submit(stream, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran, 1);
}

CASE(every_kind_of_exception_is_caught) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  driver.submit(stream, []() -> void { throw 42; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_UNKNOWN);
  CHECK(test::take_error().find("unknown type") != std::string::npos);
  driver.submit(stream, []() -> void { throw std::bad_alloc(); });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OUT_OF_MEMORY);
  CHECK(test::take_error().find("memory") != std::string::npos);
}

CASE(the_closures_own_status_and_text_arrive_and_the_first_of_several_wins) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  driver.submit(stream, [](const tb_closure_context *context) { return fail_with(context, TB_DATA_LOSS, "first"); });
  driver.submit<TB_CLOSURE_AFTER_FAILURE>(
      stream, [](const tb_closure_context *context) { return fail_with(context, TB_INTERNAL, "second"); });
  driver.submit<TB_CLOSURE_AFTER_FAILURE>(stream, [](const tb_closure_context *) -> tb_status { return TB_ABORTED; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  const std::string text = test::take_error();
  CHECK(text.starts_with("test: first"));
  CHECK(text.find("2 later failures") != std::string::npos);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  driver.submit(stream, [](const tb_closure_context *) -> tb_status { return TB_ABORTED; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_ABORTED);
  CHECK(test::take_error().find("status 10") != std::string::npos);
}

CASE(destroy_follows_a_run_that_throws) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto alive = std::make_shared<int>(1);
  driver.submit(stream, [alive]() -> void { throw std::runtime_error("x"); });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_UNKNOWN);
  CHECK_EQUAL(alive.use_count(), 1);
}

CASE(a_long_text_is_cut_and_ends) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  driver.submit(stream, []() -> void { throw std::runtime_error(std::string(5000, 'x')); });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_UNKNOWN);
  const std::string text = test::take_error();
  CHECK(text.size() > 500 && text.size() < 1024);
}

CASE(each_of_the_five_queries_reports_the_failure) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event();
  for (int way = 0; way < 5; ++way) {
    driver.submit(stream, [](const tb_closure_context *context) { return fail_with(context, TB_ABORTED, "reported"); });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
    tb_status status = TB_NOT_READY;
    while (status == TB_NOT_READY) {
      status = way == 0   ? driver.api.stream_synchronize(driver.self, stream)
               : way == 1 ? driver.api.device_synchronize(driver.self, 0)
               : way == 2 ? driver.api.event_synchronize(driver.self, event)
               : way == 3 ? driver.api.stream_query(driver.self, stream)
                          : driver.api.event_query(driver.self, event);
    }
    CHECK_EQUAL(status, TB_ABORTED);
    CHECK(test::take_error() == "test: reported");
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_OK);
  }
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(an_event_before_the_failure_does_not_report_it) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event();
  driver.submit(stream, [] {});
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  test::Gate gate;
  driver.submit(stream, [&gate](const tb_closure_context *) -> tb_status {
    gate.pass();
    return TB_ABORTED;
  });
  gate.open();
  while (driver.api.event_query(driver.self, event) == TB_NOT_READY) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_ABORTED);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(a_failure_travels_to_the_stream_that_waited_and_is_still_reported_once) {
  for (int ask_waiter_first = 0; ask_waiter_first < 2; ++ask_waiter_first)
    for (int already_done = 0; already_done < 2; ++already_done) {
      OpenedDriver driver(Options{{"devices", "2"}});
      tb_stream *source = driver.default_stream(0), *waiter = driver.default_stream(1);
      tb_event *event = driver.create_event();
      test::Gate gate;
      if (already_done) gate.open();
      driver.submit(source, [&gate](const tb_closure_context *context) {
        gate.pass();
        return fail_with(context, TB_ABORTED, "upstream");
      });
      CHECK_EQUAL(driver.api.event_record(driver.self, event, source), TB_OK);
      if (already_done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK);
      gate.open();
      if (!ask_waiter_first) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      CHECK_EQUAL(driver.api.stream_synchronize(driver.self, ask_waiter_first ? waiter : source), TB_ABORTED);
      CHECK(test::take_error() == "test: upstream");
      CHECK_EQUAL(driver.api.stream_synchronize(driver.self, ask_waiter_first ? source : waiter), TB_OK);
      CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
    }
}

CASE(a_host_call_receives_a_failure_that_was_not_reported) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_status seen[2] = {TB_NOT_READY, TB_NOT_READY};
  const auto record = [](void *user, tb_status status) { *static_cast<tb_status *>(user) = status; };
  driver.submit(stream, [](const tb_closure_context *context) { return fail_with(context, TB_DATA_LOSS, "lost"); });
  CHECK_EQUAL(driver.api.stream_host_call(driver.self, stream, record, &seen[0]), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  CHECK_EQUAL(driver.api.stream_host_call(driver.self, stream, record, &seen[1]), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(seen[0], TB_DATA_LOSS);
  CHECK_EQUAL(seen[1], TB_OK);
}

CASE(a_failure_of_a_destroyed_stream_is_reported_by_the_device) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream();
  driver.submit(stream, [](const tb_closure_context *context) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return fail_with(context, TB_ABORTED, "late");
  });
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  int64_t workers = -1;
  for (int turn = 0; turn < 5000 && workers != 0; ++turn) { // waits until the worker is joined
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.workers", &workers), TB_OK);
  }
  CHECK_EQUAL(workers, 0);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_ABORTED);
  CHECK(test::take_error() == "test: late");
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
}

CASE(failures_of_two_streams_are_reported_one_a_call) {
  OpenedDriver driver;
  tb_stream *streams[] = {driver.create_stream(), driver.create_stream()};
  for (tb_stream *stream : streams)
    driver.submit(stream, [](const tb_closure_context *context) { return fail_with(context, TB_ABORTED, "each"); });
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_ABORTED);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_ABORTED);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(what_is_left_out_is_destroyed) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto alive = std::make_shared<int>(1);
  driver.submit(stream, []() -> tb_status { return TB_ABORTED; });
  for (int i = 0; i < 100; ++i) driver.submit<TB_CLOSURE_ON_WAITER>(stream, [alive] { ++*alive; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_ABORTED);
  CHECK_EQUAL(alive.use_count(), 1);
  CHECK_EQUAL(*alive, 1);
}

CASE(a_wait_that_was_queued_before_the_report_and_runs_after_it_leaves_out_what_follows) {
  OpenedDriver driver;
  tb_stream *source = driver.default_stream(), *waiter = driver.create_stream();
  tb_event *event = driver.create_event();
  test::Gate gate;
  int ran = 0;
  driver.submit(waiter, [&gate] { gate.pass(); });
  driver.submit(source, []() -> tb_status { return TB_ABORTED; });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, source), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK);
  driver.submit(waiter, [&ran] { ran += 1; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, source), TB_ABORTED);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK); // the failure is known by now
  driver.submit(waiter, [&ran] { ran += 10; });
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, waiter), TB_OK);
  CHECK_EQUAL(ran, 10);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, waiter), TB_OK);
}

CASE(a_second_failure_leaves_out_work_after_the_report_of_the_first) {
  OpenedDriver driver;
  tb_stream *streams[] = {driver.create_stream(), driver.create_stream()};
  tb_stream *waiter = driver.default_stream();
  tb_event *event = driver.create_event();
  int ran = 0;
  for (tb_stream *stream : streams) {
    driver.submit(stream, []() -> tb_status { return TB_ABORTED; });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK);
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, streams[0]), TB_ABORTED);
  driver.submit(waiter, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, waiter), TB_ABORTED); // the second's
  CHECK_EQUAL(ran, 0);
  driver.submit(waiter, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(ran, 1);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(many_failures_in_a_row_each_leave_out_their_own) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  int ran = 0;
  for (int round = 0; round < 200; ++round) { // more than a stream remembers
    driver.submit(stream, []() -> tb_status { return TB_ABORTED; });
    driver.submit(stream, [&ran] { ran += 1000; });
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_ABORTED);
    driver.submit(stream, [&ran] { ++ran; });
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran, 200);
}
