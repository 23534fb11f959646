// Threads that wait run work that nobody has begun: what they run, in which order, and who runs it otherwise.
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::Gate;
using test::OpenedDriver;
using test::Options;
using namespace std::chrono_literals;

namespace {

// With a spin that is longer than the work here, so that a waiter is awake when the worker releases the head.
Options long_spin() { return {{"spin", "1000000"}}; }

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

constexpr int most_cycles = 2000;

// Waits after little work, by `wait`, until a closure has run on the waiting thread. False: none did. On a busy machine
// the worker may do the work of one cycle before the waiter is there, so no single wait has to run any.
template <typename Wait> bool waiter_runs_work(OpenedDriver &driver, tb_stream *stream, Wait &&wait) {
  for (int cycle = 0; cycle < most_cycles; ++cycle) {
    bool on_waiter = false;
    const auto waiter = std::this_thread::get_id();
    for (int i = 0; i < 2; ++i)
      driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&on_waiter, waiter](const tb_closure_context *context) {
        work_for(200us);
        on_waiter = context->on_waiter;
        const bool here = std::this_thread::get_id() == waiter;
        return static_cast<tb_status>(on_waiter == here ? TB_OK : TB_INTERNAL);
      });
    CHECK_EQUAL(wait(), TB_OK);
    if (on_waiter) return true;
  }
  return false;
}

bool waiter_runs_work(OpenedDriver &driver, tb_stream *stream) {
  return waiter_runs_work(driver, stream, [&] { return driver.api.stream_synchronize(driver.self, stream); });
}

bool reached(const std::atomic<int> &value, int expected) {
  for (int turn = 0; turn < 5000 && value.load() < expected; ++turn) std::this_thread::sleep_for(1ms);
  return value.load() == expected;
}

} // namespace

CASE(a_waiter_runs_what_allows_it_after_little_work) {
  OpenedDriver driver(long_spin());
  CHECK(waiter_runs_work(driver, driver.default_stream()));
  CHECK(waiter_runs_work(driver, driver.default_stream()));
}

CASE(an_event_and_the_device_can_be_waited_for_in_the_same_way) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event();
  CHECK(waiter_runs_work(driver, stream, [&] {
    const tb_status recorded = driver.api.event_record(driver.self, event, stream);
    return recorded == TB_OK ? driver.api.event_synchronize(driver.self, event) : recorded;
  }));
  CHECK(waiter_runs_work(driver, stream, [&] { return driver.api.device_synchronize(driver.self, 0); }));
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(what_does_not_allow_it_runs_on_the_worker_in_its_order) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  CHECK(waiter_runs_work(driver, stream));
  const auto waiter = std::this_thread::get_id();
  for (int cycle = 0; cycle < 200; ++cycle) {
    std::vector<int> order;
    bool elsewhere = false;
    driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&] { order.push_back(0); });
    driver.submit(stream, [&](const tb_closure_context *context) {
      order.push_back(1);
      elsewhere = std::this_thread::get_id() != waiter && !context->on_waiter;
      return TB_OK;
    });
    driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&] { order.push_back(2); });
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK(elsewhere);
    CHECK(order == (std::vector<int>{0, 1, 2}));
  }
}

CASE(work_that_nobody_waits_for_begins_all_the_same) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  for (const int count : {1, 5, 500}) {
    CHECK(waiter_runs_work(driver, stream));
    std::atomic<int> ran{0};
    for (int i = 0; i < count; ++i) driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&ran] { ++ran; });
    CHECK(reached(ran, count));
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  }
}

CASE(much_work_begins_while_it_is_queued) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  CHECK(waiter_runs_work(driver, stream));
  std::atomic<int> ran{0};
  Gate gate;
  for (int i = 0; i < 100; ++i) {
    driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&, i] {
      ++ran;
      if (i == 50) gate.pass(); // a waiter would wait for ever
    });
  }
  CHECK(reached(ran, 51));
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran.load(), 100);
}

CASE(another_stream_may_wait_for_work_that_was_not_begun) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream(), *other = driver.create_stream();
  tb_event *event = driver.create_event();
  for (int cycle = 0; cycle < 5; ++cycle) {
    CHECK(waiter_runs_work(driver, stream));
    int order = 0, first = 0, second = 0;
    driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&] { first = ++order; });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, other, event), TB_OK);
    driver.submit(other, [&] { second = ++order; });
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, other), TB_OK);
    CHECK_EQUAL(first, 1);
    CHECK_EQUAL(second, 2);
  }
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, other), TB_OK);
}

CASE(a_failure_on_a_waiter_is_reported_by_that_wait) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  CHECK(waiter_runs_work(driver, stream));
  bool ran = false;
  driver.submit<TB_CLOSURE_ON_WAITER>(stream, [](const tb_closure_context *context) {
    std::snprintf(context->error_text, context->error_capacity, "it breaks");
    return TB_OUT_OF_RANGE;
  });
  driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&ran] { ran = true; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OUT_OF_RANGE);
  CHECK(test::take_error() == "test: it breaks");
  CHECK(!ran); // it was queued behind the failure
  driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&ran] { ran = true; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK(ran);
}

CASE(a_closure_on_a_waiter_cannot_wait_for_its_own_stream) {
  OpenedDriver driver(long_spin());
  tb_stream *stream = driver.default_stream();
  CHECK(waiter_runs_work(driver, stream));
  int32_t of_stream = TB_OK, of_device = TB_OK;
  driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&] {
    driver.submit<TB_CLOSURE_ON_WAITER>(stream, [] {});
    of_stream = driver.api.stream_synchronize(driver.self, stream);
    of_device = driver.api.device_synchronize(driver.self, 0);
  });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(of_stream, TB_FAILED_PRECONDITION);
  CHECK_EQUAL(of_device, TB_FAILED_PRECONDITION);
}

CASE(a_stream_whose_head_is_nobodys_can_be_destroyed_with_work_in_it) {
  for (int cycle = 0; cycle < 10; ++cycle) {
    OpenedDriver driver(long_spin());
    tb_stream *stream = driver.create_stream();
    CHECK(waiter_runs_work(driver, stream));
    std::atomic<int> ran{0};
    for (int i = 0; i < 3; ++i) driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&ran] { ++ran; });
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
    CHECK(reached(ran, 3));
  }
}

CASE(many_threads_queue_and_wait_on_one_stream) {
  constexpr int thread_count = 4, cycles = 300;
  OpenedDriver driver(Options{{"spin", "2000"}});
  tb_stream *stream = driver.default_stream();
  long in_order = 0, last = -1; // written by the stream's work only
  std::atomic<long> next{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < thread_count; ++number)
    threads.emplace_back([&, number] {
      for (int cycle = 0; cycle < cycles; ++cycle) {
        long ran = -1;
        const int count = cycle % 17 == 0 ? 40 : 1 + cycle % 3; // sometimes much
        for (int i = 0; i < count; ++i)
          driver.submit<TB_CLOSURE_ON_WAITER>(stream, [&, i] {
            ran = ++in_order;
            if (cycle % 2 && i == 0) work_for(std::chrono::microseconds(20 * number));
          });
        if (cycle % 11 == 0) driver.submit(stream, [&last, &in_order] { last = in_order; });
        if (driver.api.stream_synchronize(driver.self, stream) != TB_OK || ran < 0) ++failed;
        next += count;
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK_EQUAL(failed.load(), 0);
  CHECK_EQUAL(in_order, next.load());
}
