// CON: races. What the rules allow at once, done at once; ThreadSanitizer sees open drivers do it.
#include <latch>
#include <set>
#include <string>

#include "contract/support/probe.h"

namespace tb::contract::concurrency_cases {
namespace {

TB_CASE(CON, 01, TB_GROUP_CORE, "T1 mem_alloc.4", "eight threads allocate and free, and no live blocks overlap") {
  constexpr int thread_total = 8, round_count = 200, most_live = 16;
  Threads threads;
  for (int thread = 0; thread < thread_total; ++thread)
    threads.start([&, thread] {
      std::vector<std::unique_ptr<Block>> live(most_live);
      for (int round = 0; round < round_count; ++round) {
        auto &place = live[static_cast<size_t>(round % most_live)];
        if (place) // no other thread wrote it
          CHECK_EQUAL(read_word(kit, place->data()), static_cast<uint32_t>(thread * round_count + round - most_live));
        place.reset();
        place = std::make_unique<Block>(kit, 64 + static_cast<uint64_t>(round * 40));
        write_words(kit, place->data(), {static_cast<uint32_t>(thread * round_count + round)});
      }
    });
  threads.join();
}

TB_CASE(CON, 02, TB_GROUP_ASYNC, "T3 stream_create.2", "eight threads enqueue on one stream: all of it is there") {
  constexpr uint32_t thread_total = 8, per_thread = 300;
  Block words(kit, 4 * thread_total * per_thread);
  words.fill(0);
  Stream stream(kit);
  Threads threads;
  for (uint32_t thread = 0; thread < thread_total; ++thread)
    threads.start([&, thread] {
      for (uint32_t i = 0; i < per_thread; ++i) {
        const uint32_t place = thread * per_thread + i;
        set_word(kit, stream, words.data() + 4 * place, UINT32_MAX);
        set_word(kit, stream, words.data() + 4 * place, place + 1); // its own order holds
      }
    });
  threads.join();
  stream.synchronize();
  const auto got = read_words(kit, words.data(), thread_total * per_thread);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i + 1);
}

TB_CASE(CON, 03, TB_GROUP_ASYNC, "T1 T3 stream_destroy.1", "streams are created and destroyed while others run") {
  constexpr uint32_t thread_total = 6, round_count = 60;
  auto [api, self] = driver_of(kit);
  Block words(kit, 4 * thread_total * round_count);
  words.fill(0);
  Threads threads;
  for (uint32_t thread = 0; thread < thread_total; ++thread)
    threads.start([&, thread] {
      for (uint32_t round = 0; round < round_count; ++round) {
        Stream stream(kit);
        set_word(kit, stream, words.data() + 4 * (thread * round_count + round), round + 1);
      } // without waiting
    });
  threads.join();
  CHECK_OK(api.device_synchronize(self, 0)); // also streams that are gone
  const auto got = read_words(kit, words.data(), thread_total * round_count);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i % round_count + 1);
}

TB_CASE(CON, 04, TB_GROUP_ASYNC, "stream_wait_event.1 T3", "two threads hand a word to and fro by events, 2000 times",
        .seconds = 60) {
  auto [api, self] = driver_of(kit);
  constexpr uint32_t round_count = 1000;
  Block words(kit, 4 * (2 * round_count + 1));
  words.fill(0);
  write_words(kit, words.data(), {4});
  Stream streams[2] = {Stream(kit), Stream(kit)};
  Event events[2] = {Event(kit), Event(kit)};
  std::atomic<uint32_t> turn{0};
  Threads threads;
  for (uint32_t who = 0; who < 2; ++who)
    threads.start([&, who, api = &api, self = self] {
      for (uint32_t step = who; step < 2 * round_count; step += 2) {
        for (double late = seconds_now() + 10; turn != step;) {
          if (seconds_now() > late) throw Failed("the other thread has stopped");
          std::this_thread::yield();
        }
        CHECK_OK(api->stream_wait_event(self, streams[who], events[1 - who]));
        copy_word(kit, streams[who], words.data() + 4 * (step + 1), words.data() + 4 * step);
        CHECK_OK(api->event_record(self, events[who], streams[who]));
        turn = step + 1;
      }
    });
  threads.join();
  streams[0].synchronize();
  streams[1].synchronize();
  CHECK_EQUAL(read_word(kit, words.data() + 4 * 2 * round_count), 4u);
}

TB_CASE(CON, 05, TB_GROUP_ASYNC, "device_synchronize.2 stream_synchronize.1",
        "synchronising ends while other threads go on enqueueing", .seconds = 60) {
  auto [api, self] = driver_of(kit);
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> queued{0};
  Block words(kit, 4 * 3);
  Stream streams[3] = {Stream(kit), Stream(kit), Stream(kit)};
  Threads threads;
  for (size_t thread = 0; thread < 3; ++thread)
    threads.start([&, thread, api = &api, self = self] {
      // Always a batch ahead of the device, and never more than two: a slow device is not flooded.
      Event events[2] = {Event(kit), Event(kit)};
      const double late = seconds_now() + 30;
      for (size_t batch = 0; !stop; ++batch) {
        if (seconds_now() > late) throw Failed("no end of synchronising while others enqueue, for 30 s");
        CHECK_OK(api->event_synchronize(self, events[batch % 2]));
        for (uint32_t i = 0; i < 20; ++i, ++queued) set_word(kit, streams[thread], words.data() + 4 * thread, i);
        CHECK_OK(api->event_record(self, events[batch % 2], streams[thread]));
      }
    });
  wait_until([&] { return queued > 300; }, "the others to be busy");
  tb_status worst = TB_OK;
  for (int i = 0; i < 5 && worst == TB_OK; ++i) {
    worst = api.device_synchronize(self, 0);
    if (worst == TB_OK) worst = api.stream_synchronize(self, streams[0]);
  }
  stop = true;
  threads.join();
  CHECK_OK(worst);
  CHECK_OK(api.device_synchronize(self, 0));
}

TB_CASE(CON, 06, TB_GROUP_CORE, "E2 T1", "failures of one thread are never reported to another") {
  auto [api, self] = driver_of(kit);
  std::atomic<bool> stop{false};
  Threads threads;
  threads.start([&, api = &api, self = self] {
    struct Stop { // also when a check fails
      std::atomic<bool> &flag;
      ~Stop() { flag = true; }
    } stops{stop};
    void *memory = nullptr;
    for (int i = 0; i < 2000; ++i) CHECK_STATUS(api->mem_alloc(self, -7, 64, 0, &memory), TB_OUT_OF_RANGE);
  });
  threads.start([&, api = &api, self = self] {
    kit.take_error();
    uint64_t calls = 0;
    do {
      tb_device_info info{};
      info.struct_size = sizeof info;
      if (api->device_get_info(self, 0, &info) != TB_OK) throw Failed("device_get_info failed");
      calls += kit.take_error().calls;
    } while (!stop);
    CHECK_EQUAL(calls, uint64_t(0));
  });
  threads.join();
}

TB_CASE(CON, 07, TB_GROUP_ASYNC, "T3 event_record.2 event_query.1",
        "one event is recorded, queried and waited for by many threads") {
  auto [api, self] = driver_of(kit);
  Stream streams[2] = {Stream(kit), Stream(kit)};
  Stream waits(kit);
  Event event(kit);
  Block words(kit, 12);
  Threads threads;
  for (size_t who = 0; who < 2; ++who)
    threads.start([&, who, api = &api, self = self] {
      for (uint32_t i = 0; i < 500; ++i) {
        set_word(kit, streams[who], words.data() + 4 * who, i);
        CHECK_OK(api->event_record(self, event, streams[who]));
      }
    });
  for (int who = 0; who < 3; ++who)
    threads.start([&, who, api = &api, self = self] {
      for (int i = 0; i < 300; ++i) {
        if (who == 0) CHECK_OK(api->stream_wait_event(self, waits, event));
        if (who == 1) CHECK_OK(api->event_synchronize(self, event));
        const tb_status status = api->event_query(self, event);
        CHECK(status == TB_OK || status == TB_NOT_READY);
      }
    });
  threads.join();
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK_OK(api.event_query(self, event)); // the last record has passed
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>(2, 499));
}

TB_CASE(CON, 08, TB_GROUP_ASYNC, "T2 stream_synchronize.1",
        "eight threads each have their stream, and their own results") {
  Threads threads;
  for (uint32_t thread = 0; thread < 8; ++thread)
    threads.start([&, thread] {
      Stream stream(kit);
      Block words(kit, 4 * 64);
      for (uint32_t round = 0; round < 30; ++round) {
        for (uint32_t i = 0; i < 64; ++i)
          set_word(kit, stream, words.data() + 4 * i, thread * 1000000 + round * 64 + i);
        uint32_t got[64] = {};
        CHECK_OK(kit.api().mem_copy(kit.self(), 0, stream, got, words.data(), sizeof got, TB_COPY_DEVICE_TO_HOST));
        stream.synchronize();
        for (uint32_t i = 0; i < 64; ++i) CHECK_EQUAL(got[i], thread * 1000000 + round * 64 + i);
      }
    });
  threads.join();
}

TB_CASE(CON, 09, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "E4 T3",
        "a failure is reported to exactly one of eight threads that ask") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> reported{0}, strange{0};
    Gate gate(kit, stream);
    submit_failure(kit, stream, TB_INTERNAL, "asked by eight");
    Event event(kit);
    CHECK_OK(api.event_record(self, event, stream));
    Threads threads;
    for (int thread = 0; thread < 8; ++thread)
      threads.start([&, thread, round, api = &api, self = self] {
        // By turns, so that either way of asking comes first in some rounds.
        const tb_status status =
            (thread + round) % 2 ? api->stream_synchronize(self, stream) : api->event_synchronize(self, event);
        if (status == TB_INTERNAL && kit.take_error().text.find("asked by eight") != std::string::npos)
          ++reported;
        else if (status != TB_OK)
          ++strange;
      });
    gate.open();
    threads.join();
    CHECK_EQUAL(reported.load(), 1);
    CHECK_EQUAL(strange.load(), 0);
  }
}

TB_CASE(CON, 10, TB_GROUP_CORE, "device_get_info.1 device_count.2 T1", "eight threads learn the same facts") {
  const tb_device_info first = kit.info(0);
  const int32_t count = kit.device_count();
  Threads threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.start([&] {
      for (int round = 0; round < 100; ++round) {
        tb_device_info info{};
        info.struct_size = sizeof info;
        CHECK_OK(kit.api().device_get_info(kit.self(), 0, &info));
        CHECK_EQUAL(std::string(info.name), std::string(first.name));
        CHECK_EQUAL(info.total_memory, first.total_memory);
        CHECK_EQUAL(kit.device_count(), count);
      }
    });
  threads.join();
}

TB_CASE(CON, 11, TB_GROUP_CORE, "T1 mem_free.1", "an address may be another thread's before its free has returned") {
  constexpr int thread_total = 8, round_count = 200;
  constexpr uint64_t block_bytes = 1 << 14; // one for all, so that addresses come again
  auto [api, self] = driver_of(kit);
  std::latch begin(thread_total);
  Threads threads;
  for (int thread = 0; thread < thread_total; ++thread)
    threads.start([&kit, &begin, api = &api, self = self] {
      begin.arrive_and_wait();
      void *held = nullptr; // over another free, so that a driver that forgets it late finds it alive
      for (int round = 0; round < round_count; ++round) {
        void *block = nullptr;
        CHECK_OK(api->mem_alloc(self, 0, block_bytes, 0, &block));
        CHECK_OK(api->mem_free(self, 0, held));
        held = block;
      }
      CHECK_OK(api->mem_free(self, 0, held));
    });
  threads.join();
}

} // namespace
} // namespace tb::contract::concurrency_cases
