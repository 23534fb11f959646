// Streams: order within and between them, waits, destroy, synchronise, waiters, threads.
#include <cstring>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::Gate;
using test::OpenedDriver;
using test::Options;
using namespace std::chrono_literals;

namespace {
int64_t workers(OpenedDriver &driver) {
  int64_t count = -1;
  if (driver.api.device_query(driver.self, 0, "cpu.workers", &count)) throw std::runtime_error(test::take_error());
  return count;
}
} // namespace

CASE(no_thread_starts_before_the_first_work) {
  OpenedDriver driver;
  std::vector<tb_stream *> streams;
  for (int number = 0; number < 1000; ++number) streams.push_back(driver.create_stream());
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, streams[3]), TB_OK);
  CHECK_EQUAL(driver.api.stream_query(driver.self, driver.default_stream()), TB_OK);
  CHECK_EQUAL(workers(driver), 0);
  driver.submit(streams[5], [] {});
  CHECK_EQUAL(workers(driver), 1);
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(the_default_stream_is_the_same_each_time_and_is_not_destroyed) {
  OpenedDriver driver(Options{{"devices", "2"}});
  CHECK(driver.default_stream(0) == driver.default_stream(0));
  CHECK(driver.default_stream(0) != driver.default_stream(1));
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, driver.default_stream(0)), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("borrowed") != std::string::npos);
}

CASE(a_query_says_not_ready_and_then_ok_and_never_blocks) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream();
  Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < 100; ++turn) CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_NOT_READY);
  CHECK(std::chrono::steady_clock::now() - start < 500ms);
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(two_streams_do_not_wait_for_each_other) {
  OpenedDriver driver;
  tb_stream *blocked = driver.create_stream(), *free = driver.create_stream();
  Gate gate;
  driver.submit(blocked, [&gate] { gate.pass(); });
  int ran = 0;
  driver.submit(free, [&ran] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, free), TB_OK);
  CHECK_EQUAL(ran, 1);
  CHECK_EQUAL(driver.api.stream_query(driver.self, blocked), TB_NOT_READY);
  gate.open();
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, blocked), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, free), TB_OK);
}

CASE(two_streams_play_ping_pong_through_events) {
  OpenedDriver driver(Options{{"devices", "2"}});
  tb_stream *streams[] = {driver.default_stream(0), driver.default_stream(1)};
  tb_event *event = driver.create_event();
  std::vector<int> order; // not locked: only the waits order the two workers
  for (int number = 0; number < 10000; ++number) {
    tb_stream *mine = streams[number % 2], *next = streams[1 - number % 2];
    driver.submit(mine, [&order, number] { order.push_back(number); });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, mine), TB_OK);
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, next, event), TB_OK);
  }
  for (int device = 0; device < 2; ++device) CHECK_EQUAL(driver.api.device_synchronize(driver.self, device), TB_OK);
  CHECK_EQUAL(order.size(), 10000u);
  for (int number = 0; number < 10000; ++number) CHECK_EQUAL(order[number], number);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(a_chain_of_a_thousand_waits_keeps_the_order) {
  OpenedDriver driver;
  std::vector<tb_stream *> streams;
  for (int number = 0; number < 20; ++number) streams.push_back(driver.create_stream());
  Gate gate;
  driver.submit(streams[0], [&gate] { gate.pass(); });
  std::vector<int> order;
  for (int link = 0; link < 1000; ++link) {
    tb_stream *stream = streams[static_cast<size_t>(link) % streams.size()];
    tb_event *event = driver.create_event();
    driver.submit(stream, [&order, link] { order.push_back(link); });
    CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
    CHECK_EQUAL(
        driver.api.stream_wait_event(driver.self, streams[static_cast<size_t>(link + 1) % streams.size()], event),
        TB_OK);
    CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK); // the event is pending
  }
  gate.open();
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(order.size(), 1000u);
  for (int link = 0; link < 1000; ++link) CHECK_EQUAL(order[link], link);
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(a_diamond_joins_both_branches) {
  OpenedDriver driver;
  tb_stream *top = driver.create_stream(), *left = driver.create_stream(), *right = driver.create_stream();
  tb_event *start = driver.create_event(), *left_done = driver.create_event(), *right_done = driver.create_event();
  Gate gate;
  int source = 0, sum = 0, halves[2] = {};
  driver.submit(top, [&] { gate.pass(), source = 21; });
  CHECK_EQUAL(driver.api.event_record(driver.self, start, top), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, left, start), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, right, start), TB_OK);
  driver.submit(left, [&] { halves[0] = source; });
  driver.submit(right, [&] { halves[1] = source; });
  CHECK_EQUAL(driver.api.event_record(driver.self, left_done, left), TB_OK);
  CHECK_EQUAL(driver.api.event_record(driver.self, right_done, right), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, top, left_done), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, top, right_done), TB_OK);
  driver.submit(top, [&] { sum = halves[0] + halves[1]; });
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, top), TB_OK);
  CHECK_EQUAL(sum, 42);
  for (tb_event *event : {start, left_done, right_done}) driver.api.event_destroy(driver.self, event);
  for (tb_stream *stream : {top, left, right}) driver.api.stream_destroy(driver.self, stream);
}

CASE(destroy_does_not_wait_and_queued_work_still_runs) {
  OpenedDriver driver;
  std::atomic<int> ran{0};
  Gate gate;
  for (int number = 0; number < 20; ++number) {
    tb_stream *stream = driver.create_stream();
    driver.submit(stream, [&gate] { gate.pass(); });
    for (int work = 0; work < 10; ++work) driver.submit(stream, [&ran] { ran.fetch_add(1); });
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(ran.load(), 0);
  gate.open();
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK); // covers destroyed streams that still have work
  CHECK_EQUAL(ran.load(), 200);
}

CASE(close_runs_what_is_still_queued) {
  std::atomic<int> ran{0};
  {
    OpenedDriver driver;
    for (int number = 0; number < 3000; ++number) driver.submit(driver.default_stream(), [&ran] { ran.fetch_add(1); });
    tb_stream *stream = driver.create_stream();
    driver.submit(stream, [&ran] {
      std::this_thread::sleep_for(10ms);
      ran.fetch_add(1);
    });
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(ran.load(), 3001);
}

CASE(a_thousand_used_and_destroyed_streams_leave_no_thread_behind) {
  OpenedDriver driver;
  std::atomic<int> ran{0};
  for (int number = 0; number < 1000; ++number) {
    tb_stream *stream = driver.create_stream();
    driver.submit(stream, [&ran] { ran.fetch_add(1); });
    if (number % 3 == 0) CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(ran.load(), 1000);
  for (int turn = 0; turn < 1000 && workers(driver) > 0; ++turn) std::this_thread::sleep_for(1ms);
  CHECK_EQUAL(workers(driver), 0);
}

CASE(device_synchronize_covers_other_threads_streams_and_only_this_device) {
  OpenedDriver driver(Options{{"devices", "2"}});
  Gate other;
  driver.submit(driver.default_stream(1), [&other] { other.pass(); });
  std::atomic<int> ran{0};
  std::vector<tb_stream *> streams(4);
  std::vector<std::thread> threads;
  for (tb_stream *&stream : streams)
    threads.emplace_back([&driver, &stream, &ran] {
      stream = driver.create_stream(0);
      for (int work = 0; work < 50; ++work)
        driver.submit(stream, [&ran] {
          std::this_thread::sleep_for(100us);
          ran.fetch_add(1);
        });
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(ran.load(), 200);
  CHECK_EQUAL(driver.api.stream_query(driver.self, driver.default_stream(1)), TB_NOT_READY);
  other.open();
  for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(synchronize_ends_while_others_go_on_enqueueing) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    while (!stop) driver.submit(stream, [] { std::this_thread::sleep_for(10us); });
  });
  for (int turn = 0; turn < 5; ++turn) {
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  }
  stop = true;
  producer.join();
}

CASE(eight_threads_synchronize_at_once) {
  OpenedDriver driver(Options{{"spin", "0"}});
  tb_stream *stream = driver.default_stream();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        std::atomic<bool> ran{false};
        driver.submit(stream, [&ran] { ran = true; });
        if (driver.api.stream_synchronize(driver.self, stream) != TB_OK || !ran) ++wrong;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
}

CASE(running_work_knows_how_many_threads_wait) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  uint32_t before = 99, during = 0, after = 99;
  Gate started, gate;
  driver.submit(stream, [&](const tb_closure_context *context) {
    before = context->waiters;
    started.open();
    gate.pass();
    return static_cast<tb_status>(TB_OK);
  });
  for (int turn = 0; turn < 2000; ++turn) // keeps the stream busy until both threads below wait
    driver.submit(stream, [&](const tb_closure_context *context) {
      if (during == 2) return static_cast<tb_status>(TB_OK);
      during = context->waiters;
      std::this_thread::sleep_for(1ms);
      return static_cast<tb_status>(context->device == 0 && context->stream == stream ? TB_OK : TB_INTERNAL);
    });
  started.pass();
  std::thread one([&] { driver.api.stream_synchronize(driver.self, stream); });
  std::thread two([&] { driver.api.device_synchronize(driver.self, 0); });
  gate.open();
  one.join();
  two.join();
  driver.submit(stream, [&](const tb_closure_context *context) {
    after = context->waiters;
    return static_cast<tb_status>(TB_OK);
  });
  while (driver.api.stream_query(driver.self, stream) == TB_NOT_READY) std::this_thread::yield();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(before, 0u);
  CHECK_EQUAL(during, 2u);
  CHECK_EQUAL(after, 0u);
}

CASE(work_that_waits_for_itself_is_refused) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event();
  Gate gate;
  tb_status statuses[4] = {};
  driver.submit(stream, [&] {
    gate.pass();
    statuses[0] = driver.api.stream_synchronize(driver.self, stream);
    statuses[1] = driver.api.device_synchronize(driver.self, 0);
    statuses[2] = driver.api.event_synchronize(driver.self, event);
    statuses[3] = driver.api.close(driver.self);
  });
  driver.submit(stream, [] {});
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  for (tb_status status : statuses) CHECK_EQUAL(status, TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(work_may_enqueue_on_its_own_and_on_other_streams) {
  OpenedDriver driver;
  tb_stream *mine = driver.create_stream(), *other = driver.create_stream();
  std::atomic<int> ran{0};
  driver.submit(mine, [&] {
    driver.submit(mine, [&ran] { ran.fetch_add(1); });
    driver.submit(other, [&ran] { ran.fetch_add(10); });
  });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, mine), TB_OK);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(ran.load(), 11);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, mine), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, other), TB_OK);
}

CASE(host_calls_run_once_in_order_on_another_thread) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  struct Call {
    std::vector<int> *order;
    int number;
    std::thread::id *thread;
  };
  std::vector<int> order;
  std::thread::id thread;
  std::vector<Call> calls;
  for (int number = 0; number < 10000; ++number) calls.push_back({&order, number, &thread});
  for (Call &call : calls)
    CHECK_EQUAL(driver.api.stream_host_call(
                    driver.self, stream,
                    [](void *user, tb_status) {
                      auto *call = static_cast<Call *>(user);
                      call->order->push_back(call->number);
                      *call->thread = std::this_thread::get_id();
                    },
                    &call),
                TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), 10000u);
  for (int number = 0; number < 10000; ++number) CHECK_EQUAL(order[number], number);
  CHECK(thread != std::this_thread::get_id());
  CHECK_EQUAL(driver.api.stream_host_call(driver.self, stream, nullptr, nullptr), TB_INVALID_ARGUMENT);
}

CASE(priorities_are_clamped_and_unknown_flags_refused) {
  OpenedDriver driver;
  int ran = 0;
  for (int32_t priority : {-1000, -1, 0, 1000}) {
    tb_stream *stream = nullptr;
    CHECK_EQUAL(driver.api.stream_create(driver.self, 0, priority, 0, &stream), TB_OK);
    driver.submit(stream, [&ran] { ++ran; });
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(ran, 4);
  tb_stream *untouched = driver.default_stream();
  CHECK_EQUAL(driver.api.stream_create(driver.self, 0, 0, 8, &untouched), TB_INVALID_ARGUMENT);
  CHECK(untouched == driver.default_stream());
}

CASE(streams_come_and_go_while_others_run) {
  OpenedDriver driver;
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) {
        tb_stream *stream = driver.create_stream();
        for (int work = 0; work < 5; ++work) driver.submit(stream, [&ran] { ran.fetch_add(1); });
        if (turn % 2) driver.api.stream_synchronize(driver.self, stream);
        driver.api.stream_destroy(driver.self, stream);
        if (turn % 10 == 0) driver.api.device_synchronize(driver.self, 0);
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(ran.load(), 1000);
}
