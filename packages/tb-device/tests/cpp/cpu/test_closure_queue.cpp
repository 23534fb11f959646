// The closure queue: order, wrap-around, back-pressure, cancel, many producers.
#include <sched.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::Gate;
using test::OpenedDriver;
using test::Options;

namespace {
// Closures of any size that check their own payload.
struct Sized {
  std::vector<uint64_t> *order;
  uint64_t number;
  uint64_t size;
  std::atomic<int> *destroyed;
};
const tb_closure sized_closure = {sizeof(tb_closure), 0, "sized",
                                  [](void *storage, const tb_closure_context *) -> tb_status {
                                    auto *sized = static_cast<Sized *>(storage);
                                    const auto *bytes = static_cast<unsigned char *>(storage);
                                    for (uint64_t place = sizeof(Sized); place < sized->size; ++place)
                                      if (bytes[place] != static_cast<unsigned char>(sized->number))
                                        return TB_DATA_LOSS;
                                    sized->order->push_back(sized->number);
                                    return TB_OK;
                                  },
                                  [](void *storage) { static_cast<Sized *>(storage)->destroyed->fetch_add(1); }};
} // namespace

CASE(closures_of_one_producer_run_in_order) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::vector<int> order;
  for (int number = 0; number < 50000; ++number) driver.submit(stream, [&order, number] { order.push_back(number); });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), 50000u);
  for (int number = 0; number < 50000; ++number) CHECK_EQUAL(order[number], number);
}

CASE(four_producers_keep_their_own_order_and_lose_nothing) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  constexpr int per_thread = 20000;
  std::vector<std::pair<int, int>> order; // only the worker touches it
  std::vector<std::thread> producers;
  for (int producer = 0; producer < 4; ++producer)
    producers.emplace_back([&, producer] {
      for (int number = 0; number < per_thread; ++number)
        driver.submit(stream, [&order, producer, number] { order.emplace_back(producer, number); });
    });
  for (auto &producer : producers) producer.join();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), 4u * per_thread);
  int next[4] = {};
  for (const auto &[producer, number] : order) CHECK_EQUAL(next[producer]++, number);
}

CASE(mixed_sizes_survive_many_wraps) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::vector<uint64_t> order;
  std::atomic<int> destroyed{0};
  std::minstd_rand random(7);
  constexpr uint64_t element_count = 4000; // about 40 laps of 1 MiB
  for (uint64_t number = 0; number < element_count; ++number) {
    const uint64_t size = sizeof(Sized) + random() % (number % 50 == 0 ? 400000 : 4000);
    void *storage = nullptr;
    CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, size, &storage), TB_OK);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(storage) % TB_CLOSURE_ALIGNMENT, 0u);
    std::memset(storage, static_cast<int>(number & 255), size);
    new (storage) Sized{&order, number, size, &destroyed};
    CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, &sized_closure), TB_OK);
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), element_count);
  for (uint64_t number = 0; number < element_count; ++number) CHECK_EQUAL(order[number], number);
  CHECK_EQUAL(destroyed.load(), static_cast<int>(element_count));
}

CASE(sizes_up_to_the_stated_one_fit_and_larger_ones_are_refused) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  int64_t largest = 0;
  CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.largest_closure", &largest), TB_OK);
  CHECK(largest >= 65536);
  std::vector<uint64_t> order;
  std::atomic<int> destroyed{0};
  uint64_t number = 0;
  for (int round = 0; round < 5; ++round)
    for (uint64_t size : {uint64_t(65536), uint64_t(sizeof(Sized)), static_cast<uint64_t>(largest)}) {
      void *storage = nullptr;
      CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, size, &storage), TB_OK);
      std::memset(storage, static_cast<int>(number), size);
      new (storage) Sized{&order, number++, size, &destroyed};
      CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, &sized_closure), TB_OK);
    }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), 15u);
  void *storage = &driver;
  for (uint64_t size : {static_cast<uint64_t>(largest) + 1, uint64_t(1) << 60, UINT64_MAX}) {
    CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, size, &storage), TB_OUT_OF_RANGE);
    CHECK(storage == &driver);
    CHECK(test::take_error().find("larger") != std::string::npos);
  }
}

CASE(size_zero_gives_storage) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  void *storage = nullptr;
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, 0, &storage), TB_OK);
  CHECK(storage != nullptr);
  CHECK_EQUAL(driver.api.closure_cancel(driver.self, stream, storage), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
}

CASE(a_full_queue_makes_producers_wait_and_loses_nothing) {
  OpenedDriver driver(Options{{"spin", "10"}});
  tb_stream *stream = driver.default_stream();
  Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  int64_t bytes = 0;
  CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.queue_bytes", &bytes), TB_OK);
  constexpr int64_t place = 384; // bytes that a closure of up to 128 bytes takes, with the gap behind it
  const int count = static_cast<int>(bytes / place) * 2;
  std::atomic<int> submitted{0};
  int ran = 0;
  std::vector<std::thread> producers;
  for (int producer = 0; producer < 2; ++producer)
    producers.emplace_back([&] {
      for (int number = 0; number < count / 2; ++number) {
        driver.submit(stream, [&ran] { ++ran; });
        submitted.fetch_add(1);
      }
    });
  // The producers fill the queue and then wait for room.
  while (submitted.load() < count / 2 - 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_EQUAL(submitted.load(), count / 2 - 1);
  gate.open();
  for (auto &producer : producers) producer.join();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran, count);
}

CASE(work_that_overfills_its_own_stream_is_refused_instead_of_hanging) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::atomic<int> refused{0}, queued{0}, ran{0};
  std::string text;
  driver.submit(stream, [&] {
    while (refused == 0) {
      void *storage = nullptr;
      const tb_status status = driver.api.closure_reserve(driver.self, stream, 65536, &storage);
      if (status == TB_OK) {
        driver.api.closure_cancel(driver.self, stream, storage);
        ++queued;
      } else {
        refused = status;
        text = test::take_error();
      }
    }
  });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(refused.load(), TB_FAILED_PRECONDITION);
  CHECK(text.find("full") != std::string::npos);
  CHECK(queued.load() > 5);
  driver.submit(stream, [&] { ++ran; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran.load(), 1);
}

CASE(a_cancelled_reserve_calls_nothing_and_does_not_stop_the_stream) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  int ran = 0;
  for (int number = 0; number < 40000; ++number) {
    void *storage = nullptr;
    CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, 200, &storage), TB_OK);
    std::memset(storage, 0xff, 200); // the worker must never read this as a closure
    CHECK_EQUAL(driver.api.closure_cancel(driver.self, stream, storage), TB_OK);
    if (number % 2) driver.submit(stream, [&ran] { ++ran; });
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran, 20000);
}

CASE(the_order_is_that_of_the_reserves_not_of_the_commits) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::vector<uint64_t> order;
  std::atomic<int> destroyed{0};
  void *first = nullptr, *second = nullptr;
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, sizeof(Sized), &first), TB_OK);
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, sizeof(Sized), &second), TB_OK);
  new (second) Sized{&order, 2, sizeof(Sized), &destroyed};
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, second, &sized_closure), TB_OK);
  CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_NOT_READY);
  new (first) Sized{&order, 1, sizeof(Sized), &destroyed};
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, first, &sized_closure), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK(order == (std::vector<uint64_t>{1, 2}));
}

CASE(a_commit_without_a_whole_closure_is_refused_and_may_be_repeated) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::vector<uint64_t> order;
  std::atomic<int> destroyed{0};
  void *storage = nullptr;
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, sizeof(Sized), &storage), TB_OK);
  new (storage) Sized{&order, 1, sizeof(Sized), &destroyed};
  tb_closure bad = sized_closure;
  bad.destroy = nullptr;
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, &bad), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("destroy") != std::string::npos);
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, nullptr), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, &bad, &sized_closure), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.closure_commit(driver.self, stream, storage, &sized_closure), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(order.size(), 1u);
}

CASE(an_idle_worker_that_fell_asleep_is_woken_by_the_next_commit) {
  OpenedDriver driver(Options{{"spin", "0"}});
  tb_stream *stream = driver.default_stream();
  int ran = 0;
  for (int number = 0; number < 3000; ++number) {
    driver.submit(stream, [&ran] { ++ran; });
    if (number % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(ran, number + 1);
  }
}

CASE(a_closure_sees_what_is_behind_it_once_around_the_queue) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream();
  struct Piece { // takes 8 granules, of which the queue has 16384
    std::byte more[200];
    Gate *gate;
    int *behind;
    tb_status operator()(const tb_closure_context *context) const {
      if (gate) gate->pass();
      if (behind) *behind = test::count_behind(context);
      return TB_OK;
    }
  };
  // The first round fills the queue; in a later round one piece does not fit before the end of the queue and skips it.
  for (const int count : {2048, 2040, 2040}) {
    Gate gate;
    int first = -1, last = -1;
    driver.submit(stream, Piece{{}, &gate, &first});
    for (int i = 2; i < count; ++i) driver.submit(stream, Piece{{}, nullptr, nullptr});
    driver.submit(stream, Piece{{}, nullptr, &last});
    gate.open();
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(first, count - 1);
    CHECK_EQUAL(last, 0);
    driver.submit(stream, [] {});
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(a_worker_that_is_woken_begins_on_another_processor_and_may_run_where_it_might_before) {
  cpu_set_t before, here, of_worker;
  CHECK_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
  OpenedDriver driver(Options{{"spin", "0"}});
  tb_stream *stream = driver.default_stream();
  driver.submit(stream, [] {}); // the new worker inherits this thread's processors
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &here);
  CHECK_EQUAL(sched_setaffinity(0, sizeof here, &here), 0); // keeps this thread on its processor
  int beside = 0;
  for (int number = 0; number < 20; ++number) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> processor{-1};
    driver.submit(stream, [&] { processor = sched_getcpu(); });
    while (processor == -1) std::this_thread::yield(); // keeps this processor busy
    beside += processor == sched_getcpu();
    driver.submit(stream, [&] { sched_getaffinity(0, sizeof of_worker, &of_worker); });
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK(CPU_EQUAL(&of_worker, &before));
  }
  CHECK_EQUAL(sched_setaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) > 1)
    CHECK(beside <= 4); // load of other processes may bring the worker back
  else
    CHECK_EQUAL(beside, 20);
}
