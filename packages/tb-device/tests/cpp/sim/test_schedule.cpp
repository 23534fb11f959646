// The sim driver's scheduler: late, legal, repeatable, and always ending.
#include <chrono>
#include <set>
#include <thread>

#include "tests/cpp/check.h"
#include "tests/cpp/sim/opened_sim.h"

using test::Gate;
using test::OpenedSim;
using test::Options;
using namespace std::chrono_literals;

namespace {

std::string text(uint64_t number) { return std::to_string(number); }

// The driver runs everything queued after `idle` ms without a call; 60 s are enough for a busy machine.
Options patient(uint64_t seed) { return {{"seed", text(seed)}, {"idle", "60000"}}; }

// Runs a program of one thread with three streams, an event and a query; gives the order in which its work ran.
std::vector<int> orders_of(OpenedSim &driver) {
  std::vector<int> order;
  tb_stream *streams[3];
  for (tb_stream *&stream : streams) stream = driver.create_stream();
  tb_event *event = driver.create_event();
  for (int turn = 0; turn < 8; ++turn) {
    for (int stream = 0; stream < 3; ++stream)
      driver.submit(streams[stream], [&order, stream, turn] { order.push_back(10 * turn + stream); });
    if (turn == 3) {
      driver.ok(driver.api.event_record(driver.self, event, streams[0]));
      driver.ok(driver.api.stream_wait_event(driver.self, streams[2], event));
      driver.api.stream_query(driver.self, streams[1]);
    }
  }
  driver.ok(driver.api.stream_synchronize(driver.self, streams[1]));
  driver.ok(driver.api.device_synchronize(driver.self, 0));
  driver.ok(driver.api.event_destroy(driver.self, event));
  for (tb_stream *stream : streams) driver.ok(driver.api.stream_destroy(driver.self, stream));
  return order;
}

} // namespace

CASE(a_seed_gives_the_same_order_at_each_run) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<int> first, second;
    std::string first_schedule, second_schedule;
    {
      OpenedSim driver(patient(seed));
      first = orders_of(driver);
      first_schedule = driver.schedule();
    }
    {
      OpenedSim driver(patient(seed));
      second = orders_of(driver);
      second_schedule = driver.schedule();
    }
    CHECK(first == second);
    CHECK(first_schedule == second_schedule);
  }
}

CASE(seeds_give_many_orders_and_each_keeps_the_order_of_streams_and_events) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    OpenedSim driver(Options{{"seed", text(seed)}});
    const std::vector<int> order = orders_of(driver);
    CHECK_EQUAL(order.size(), 24u);
    size_t place_of[80] = {};
    for (size_t place = 0; place < order.size(); ++place) place_of[order[place]] = place;
    for (int turn = 0; turn < 7; ++turn)
      for (int stream = 0; stream < 3; ++stream)
        CHECK(place_of[10 * turn + stream] < place_of[10 * (turn + 1) + stream]);
    CHECK(place_of[30] < place_of[42]); // an event orders these two
    orders.insert(order);
  }
  CHECK(orders.size() > 50);
}

CASE(a_schedule_is_replayed_exactly_under_another_seed) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<int> first;
    std::string schedule;
    {
      OpenedSim driver(patient(seed));
      first = orders_of(driver);
      schedule = driver.schedule();
    }
    Options other = patient(seed + 1);
    other["schedule"] = schedule;
    OpenedSim driver(other);
    CHECK(orders_of(driver) == first);
    CHECK(driver.schedule() == schedule);
    CHECK(driver.problems().empty());
  }
}

CASE(a_schedule_of_another_program_is_reported) {
  OpenedSim driver(Options{{"schedule", "+3 7x2"}});
  orders_of(driver);
  CHECK_EQUAL(driver.problems().size(), 1u);
  CHECK(driver.problems()[0].find("does not fit") != std::string::npos);
}

CASE(a_text_that_is_no_schedule_is_refused) {
  for (const char *bad : {"0x", "x3", "+", "0 1 two", "0x0", "1,2"}) {
    tb_driver_api api;
    tb_driver *self = nullptr;
    CHECK(test::open(&api, &self, {{"schedule", bad}}) != TB_OK);
    CHECK(test::take_error().find("schedule") != std::string::npos);
  }
}

CASE(work_that_nobody_waits_for_is_held_back) {
  OpenedSim driver(Options{{"seed", "0"}, {"idle", "60000"}});
  tb_stream *first = driver.create_stream(), *second = driver.create_stream();
  std::atomic<int> ran{0};
  for (int turn = 0; turn < 10; ++turn) driver.submit(first, [&] { ++ran; });
  driver.submit(second, [] {});
  driver.ok(driver.api.stream_synchronize(driver.self, second));
  CHECK_EQUAL(ran.load(), 0);
  driver.ok(driver.api.stream_synchronize(driver.self, first));
  CHECK_EQUAL(ran.load(), 10);
  driver.ok(driver.api.stream_destroy(driver.self, first));
  driver.ok(driver.api.stream_destroy(driver.self, second));
}

CASE(work_runs_although_nobody_calls) {
  OpenedSim driver(Options{{"seed", "0"}});
  tb_stream *stream = driver.create_stream();
  std::atomic<bool> ran{false};
  driver.submit(stream, [&] { ran = true; });
  driver.ok(driver.api.stream_destroy(driver.self, stream));
  while (!ran.load()) std::this_thread::yield(); // polls host memory and calls nothing
  CHECK(ran.load());
}

CASE(polling_an_event_ends) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    OpenedSim driver(Options{{"seed", text(seed)}, {"idle", "60000"}});
    tb_stream *stream = driver.default_stream();
    tb_event *event = driver.create_event();
    driver.submit(stream, [] {});
    driver.ok(driver.api.event_record(driver.self, event, stream));
    int queries = 0;
    while (driver.api.event_query(driver.self, event) == TB_NOT_READY) ++queries;
    CHECK(queries < 10000);
    driver.ok(driver.api.event_destroy(driver.self, event));
  }
}

CASE(a_function_that_blocks_holds_no_other_stream) {
  OpenedSim driver;
  tb_stream *first = driver.create_stream(), *second = driver.create_stream();
  for (int turn = 0; turn < 3; ++turn) {
    Gate gate;
    std::atomic<bool> after{false};
    driver.submit(first, [&] { gate.pass(); });
    driver.submit(first, [&] { after = true; });
    std::thread waiter([&] { driver.api.stream_synchronize(driver.self, first); });
    driver.submit(second, [] {});
    driver.ok(driver.api.stream_synchronize(driver.self, second));
    CHECK(!after.load());
    CHECK_EQUAL(driver.api.stream_query(driver.self, first), TB_NOT_READY);
    gate.open();
    waiter.join();
    CHECK(after.load());
  }
  driver.ok(driver.api.stream_destroy(driver.self, first));
  driver.ok(driver.api.stream_destroy(driver.self, second));
}

CASE(a_query_waits_for_no_function) {
  OpenedSim driver;
  tb_stream *stream = driver.default_stream();
  Gate gate;
  driver.submit(stream, [&] { gate.pass(); });
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < 1000; ++turn) CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_NOT_READY);
  CHECK(std::chrono::steady_clock::now() - start < 500ms);
  gate.open();
  driver.ok(driver.api.stream_synchronize(driver.self, stream));
}

CASE(a_full_queue_makes_the_caller_wait_and_goes_on) {
  OpenedSim driver(Options{{"seed", "0"}, {"idle", "60000"}});
  tb_stream *stream = driver.default_stream();
  std::atomic<int> ran{0};
  for (int turn = 0; turn < 40000; ++turn) driver.submit(stream, [&] { ++ran; });
  driver.ok(driver.api.stream_synchronize(driver.self, stream));
  CHECK_EQUAL(ran.load(), 40000);
}

CASE(a_long_chain_of_waits_completes) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    OpenedSim driver(Options{{"seed", text(seed)}});
    constexpr int count = 500;
    std::vector<tb_stream *> streams;
    tb_event *event = driver.create_event();
    std::vector<int> order;
    for (int place = 0; place < count; ++place) {
      streams.push_back(driver.create_stream());
      driver.ok(driver.api.stream_wait_event(driver.self, streams.back(), event));
      driver.submit(streams.back(), [&order, place] { order.push_back(place); });
      driver.ok(driver.api.event_record(driver.self, event, streams.back()));
    }
    driver.ok(driver.api.event_synchronize(driver.self, event));
    CHECK_EQUAL(order.size(), size_t(count));
    for (int place = 0; place < count; ++place) CHECK_EQUAL(order[static_cast<size_t>(place)], place);
    driver.ok(driver.api.event_destroy(driver.self, event));
    for (tb_stream *stream : streams) driver.ok(driver.api.stream_destroy(driver.self, stream));
  }
}

CASE(a_failure_says_its_seed_and_schedule_once_also_through_waits) {
  OpenedSim driver(Options{{"seed", "3"}});
  tb_stream *first = driver.create_stream(), *second = driver.create_stream();
  tb_event *event = driver.create_event();
  driver.submit(first, []() -> tb_status { throw std::runtime_error("boom"); });
  driver.ok(driver.api.event_record(driver.self, event, first));
  driver.ok(driver.api.stream_wait_event(driver.self, second, event));
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, second), TB_UNKNOWN);
  const std::string reported = test::take_error();
  CHECK(reported.find("test: boom") != std::string::npos);
  CHECK(reported.find("seed=3 schedule=") != std::string::npos);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  driver.ok(driver.api.event_destroy(driver.self, event));
  driver.ok(driver.api.stream_destroy(driver.self, first));
  driver.ok(driver.api.stream_destroy(driver.self, second));
}

CASE(a_lost_device_fails_everything_until_it_is_reset) {
  OpenedSim driver(Options{{"lose_after", "3"}, {"seed", "0"}});
  const auto &api = driver.api;
  tb_driver *self = driver.self;
  void *block = driver.allocate(256);
  tb_stream *stream = driver.create_stream();
  tb_event *event = driver.create_event();
  bool destroyed = false, ran = false;
  struct Mark {
    bool *flag;
    bool owner = true;
    explicit Mark(bool *flag) : flag(flag) {}
    Mark(Mark &&other) noexcept : flag(other.flag), owner(std::exchange(other.owner, false)) {}
    ~Mark() {
      if (owner) *flag = true;
    }
  };
  for (int turn = 0; turn < 3; ++turn) driver.ok(api.mem_set(self, 0, stream, block, 1, 1, 256));
  driver.submit(stream, [mark = Mark(&destroyed), &ran] { ran = true; });
  tb_status reported = TB_OK;
  driver.ok(api.stream_host_call(
      self, stream, [](void *user, tb_status status) { *static_cast<tb_status *>(user) = status; }, &reported));
  CHECK_EQUAL(api.stream_synchronize(self, stream), TB_DEVICE_LOST);
  CHECK_EQUAL(api.stream_query(self, stream), TB_DEVICE_LOST);
  CHECK_EQUAL(api.mem_set(self, 0, stream, block, 1, 1, 256), TB_DEVICE_LOST);
  void *none = nullptr;
  CHECK_EQUAL(api.mem_alloc(self, 0, 64, 0, &none), TB_DEVICE_LOST);
  CHECK_EQUAL(api.event_record(self, event, stream), TB_DEVICE_LOST);
  driver.ok(api.device_synchronize(self, 1)); // the other device goes on
  driver.ok(api.device_reset(self, 0));
  CHECK(!ran && destroyed);
  CHECK_EQUAL(reported, TB_DEVICE_LOST);
  CHECK_EQUAL(api.stream_query(self, stream), TB_DEVICE_LOST); // handles from before the reset stay lost
  uint64_t free_bytes = 0, total = 0;
  driver.ok(api.device_memory_info(self, 0, &free_bytes, &total));
  CHECK_EQUAL(free_bytes, total);
  driver.ok(api.mem_free(self, 0, block));
  driver.ok(api.stream_destroy(self, stream));
  driver.ok(api.event_destroy(self, event));
  block = driver.allocate(256);
  driver.ok(api.mem_set(self, 0, driver.default_stream(), block, 7, 1, 256));
  uint8_t bytes[256] = {};
  driver.ok(api.mem_copy(self, 0, driver.default_stream(), bytes, block, 256, TB_COPY_DEVICE_TO_HOST));
  driver.ok(api.device_synchronize(self, 0));
  CHECK_EQUAL(int(bytes[255]), 7);
  driver.ok(api.mem_free(self, 0, block));
}

CASE(latency_and_bandwidth_take_their_time) {
  OpenedSim driver(Options{{"latency", "2000"}, {"bandwidth", "10MiB"}});
  void *block = driver.allocate(1 << 20);
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; turn < 5; ++turn) driver.submit(driver.default_stream(), [] {});
  driver.ok(driver.api.mem_set(driver.self, 0, driver.default_stream(), block, 1, 1, 1 << 20));
  driver.ok(driver.api.device_synchronize(driver.self, 0));
  CHECK(std::chrono::steady_clock::now() - start >= 6 * 2ms + 100ms);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
}

CASE(threads_that_queue_wait_and_query_at_once_all_end) {
  OpenedSim driver;
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      const int32_t device = number % 2;
      tb_stream *stream = driver.create_stream(device);
      tb_event *event = driver.create_event(TB_EVENT_TIMING, device);
      for (int turn = 0; turn < 200; ++turn) {
        driver.submit(stream, [&] { ++ran; });
        driver.submit(driver.default_stream(device), [&] { ++ran; });
        driver.ok(driver.api.event_record(driver.self, event, stream));
        driver.ok(driver.api.stream_wait_event(driver.self, driver.default_stream(1 - device), event));
        if (turn % 7 == 0) driver.api.event_query(driver.self, event);
        if (turn % 50 == 0) driver.ok(driver.api.device_synchronize(driver.self, device));
      }
      driver.ok(driver.api.stream_destroy(driver.self, stream));
      driver.ok(driver.api.event_destroy(driver.self, event));
    });
  for (std::thread &thread : threads) thread.join();
  driver.ok(driver.api.device_synchronize(driver.self, 0));
  driver.ok(driver.api.device_synchronize(driver.self, 1));
  CHECK_EQUAL(ran.load(), 4 * 200 * 2);
}

CASE(synchronising_ends_while_others_queue_without_end) {
  OpenedSim driver;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> queued{0};
  std::vector<std::thread> threads;
  void *block = driver.allocate(64);
  for (int number = 0; number < 3; ++number)
    threads.emplace_back([&] {
      tb_stream *stream = driver.create_stream();
      for (; !stop; ++queued) driver.ok(driver.api.mem_set(driver.self, 0, stream, block, 5, 1, 4));
      driver.ok(driver.api.stream_destroy(driver.self, stream));
    });
  while (queued < 1000) std::this_thread::yield();
  for (int turn = 0; turn < 10; ++turn) driver.ok(driver.api.device_synchronize(driver.self, 0));
  stop = true;
  for (std::thread &thread : threads) thread.join();
  std::printf("       %llu operations were queued meanwhile\n", static_cast<unsigned long long>(queued.load()));
  driver.ok(driver.api.device_synchronize(driver.self, 0));
  CHECK(queued >= 1000);
  driver.ok(driver.api.mem_free(driver.self, 0, block));
}
