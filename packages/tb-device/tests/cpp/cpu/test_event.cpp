// Events: points in streams, re-record, timing, blocking waits.
#include <ctime>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::Gate;
using test::OpenedDriver;
using test::Options;
using namespace std::chrono_literals;

CASE(a_fresh_event_is_complete_and_waiting_for_it_is_free) {
  OpenedDriver driver;
  tb_event *event = driver.create_event();
  CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, driver.default_stream(), event), TB_OK);
  int64_t workers = -1;
  CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.workers", &workers), TB_OK);
  CHECK_EQUAL(workers, 0); // nothing was queued, so no worker was started
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(an_event_is_not_ready_before_its_point_and_ready_after) {
  OpenedDriver driver;
  for (uint64_t flags : {0, int(TB_EVENT_TIMING), int(TB_EVENT_BLOCKING)}) {
    tb_stream *stream = driver.default_stream();
    tb_event *event = driver.create_event(flags);
    Gate gate;
    driver.submit(stream, [&gate] { gate.pass(); });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
    CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_NOT_READY);
    Gate later;
    driver.submit(stream, [&later] { later.pass(); });
    gate.open();
    CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK); // does not wait for the later work
    CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_OK);
    later.open();
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  }
}

CASE(a_second_record_moves_the_point_and_earlier_waits_keep_theirs) {
  OpenedDriver driver;
  for (uint64_t flags : {0, int(TB_EVENT_TIMING)}) {
    tb_stream *first = driver.create_stream(), *second = driver.create_stream(), *waiter = driver.create_stream();
    tb_event *event = driver.create_event(flags);
    Gate first_gate, second_gate;
    driver.submit(first, [&] { first_gate.pass(); });
    driver.submit(second, [&] { second_gate.pass(); });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, first), TB_OK);
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK);
    CHECK_EQUAL(driver.api.event_record(driver.self, event, second), TB_OK);
    first_gate.open();
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, waiter), TB_OK); // waits for `first` alone
    CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_NOT_READY);
    second_gate.open();
    CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
    CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
    for (tb_stream *stream : {first, second, waiter}) driver.api.stream_destroy(driver.self, stream);
  }
}

CASE(an_event_outlives_its_stream) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream(), *waiter = driver.create_stream();
  tb_event *event = driver.create_event(TB_EVENT_TIMING);
  Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, waiter, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_NOT_READY);
  gate.open();
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, waiter), TB_OK);
  for (int turn = 0; turn < 50; ++turn) { // one of these calls joins the destroyed stream's thread
    tb_stream *other = driver.create_stream();
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, other), TB_OK);
    CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_OK);
    std::this_thread::sleep_for(100us);
  }
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, waiter), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(eight_threads_wait_for_one_event) {
  OpenedDriver driver(Options{{"spin", "0"}});
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event(TB_EVENT_BLOCKING);
  Gate gate;
  int value = 0;
  std::atomic<int> right{0};
  driver.submit(stream, [&] { gate.pass(), value = 7; });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] { right += driver.api.event_synchronize(driver.self, event) == TB_OK && value == 7; });
  std::this_thread::sleep_for(5ms);
  gate.open();
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(right.load(), 8);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(one_event_is_awaited_by_two_streams_and_recorded_on_another_device) {
  OpenedDriver driver(Options{{"devices", "2"}});
  tb_stream *source = driver.default_stream(1), *one = driver.create_stream(0), *two = driver.create_stream(1);
  tb_event *event = driver.create_event(0, 0);
  Gate gate;
  int value = 0;
  std::atomic<int> sum{0};
  driver.submit(source, [&] { gate.pass(), value = 5; });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, source), TB_OK);
  for (tb_stream *stream : {one, two}) {
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, stream, event), TB_OK);
    driver.submit(stream, [&] { sum += value; });
  }
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, one), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, two), TB_OK);
  CHECK_EQUAL(sum.load(), 10);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *stream : {one, two}) driver.api.stream_destroy(driver.self, stream);
}

CASE(elapsed_time_is_that_of_the_work_between) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_event *start = driver.create_event(TB_EVENT_TIMING), *end = driver.create_event(TB_EVENT_TIMING);
  Gate gate;
  int64_t elapsed = -7;
  CHECK_EQUAL(driver.api.event_elapsed_ns(driver.self, start, end, &elapsed), TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("never recorded") != std::string::npos);
  CHECK_EQUAL(driver.api.event_record(driver.self, start, stream), TB_OK);
  int64_t slept = 0;
  driver.submit(stream, [&] {
    const auto before = std::chrono::steady_clock::now();
    gate.pass();
    std::this_thread::sleep_for(20ms);
    slept = std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count();
  });
  CHECK_EQUAL(driver.api.event_record(driver.self, end, stream), TB_OK);
  CHECK_EQUAL(driver.api.event_elapsed_ns(driver.self, start, end, &elapsed), TB_NOT_READY);
  CHECK_EQUAL(elapsed, -7);
  gate.open();
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, end), TB_OK);
  CHECK_EQUAL(driver.api.event_elapsed_ns(driver.self, start, end, &elapsed), TB_OK);
  CHECK(elapsed >= slept && elapsed < slept + 100000000);
  int64_t backwards = 0;
  CHECK_EQUAL(driver.api.event_elapsed_ns(driver.self, end, start, &backwards), TB_OK);
  CHECK_EQUAL(backwards, -elapsed);
  tb_event *plain = driver.create_event();
  CHECK_EQUAL(driver.api.event_elapsed_ns(driver.self, start, plain, &elapsed), TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("end event") != std::string::npos);
  for (tb_event *event : {start, end, plain}) CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(a_blocking_event_is_waited_for_without_burning_time) {
  OpenedDriver driver(Options{{"spin", "1000000"}});
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event(TB_EVENT_BLOCKING);
  driver.submit(stream, [] { std::this_thread::sleep_for(50ms); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec < 5000000);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(threads_may_record_query_and_wait_on_one_event_at_once) {
  OpenedDriver driver;
  tb_event *event = driver.create_event(TB_EVENT_TIMING);
  tb_stream *streams[] = {driver.create_stream(), driver.create_stream()};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < 500; ++turn) {
        wrong += driver.api.event_record(driver.self, event, streams[thread % 2]) != TB_OK;
        const tb_status status = driver.api.event_query(driver.self, event);
        wrong += status != TB_OK && status != TB_NOT_READY;
        wrong += driver.api.stream_wait_event(driver.self, streams[1 - thread % 2], event) != TB_OK;
        wrong += driver.api.event_synchronize(driver.self, event) != TB_OK;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(unknown_flags_are_refused) {
  OpenedDriver driver;
  tb_event *event = nullptr;
  CHECK_EQUAL(driver.api.event_create(driver.self, 0, 64, &event), TB_INVALID_ARGUMENT);
  CHECK(event == nullptr);
}
