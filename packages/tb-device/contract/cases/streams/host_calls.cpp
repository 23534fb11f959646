// HST: functions of the host in stream order.
#include "contract/support/probe.h"

namespace tb::contract::host_calls_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_HOSTCALL;

// What the calls saw, in the order in which they ran.
struct Log {
  struct Line {
    int number;
    tb_status status;
    std::thread::id thread;
  };
  std::mutex mutex;
  std::vector<Line> lines;
  std::vector<Line> taken() {
    std::lock_guard lock(mutex);
    return lines;
  }
};
struct Call {
  Log *log;
  int number;
};

void queue(Kit &kit, tb_stream *stream, Log &log, int number) {
  auto [api, self] = driver_of(kit);
  CHECK_OK(api.stream_host_call(
      self, stream,
      [](void *user, tb_status status) {
        const std::unique_ptr<Call> call(static_cast<Call *>(user));
        std::lock_guard lock(call->log->mutex);
        call->log->lines.push_back({call->number, status, std::this_thread::get_id()});
      },
      new Call{&log, number}));
}

TB_CASE(HST, 01, needs, "stream_host_call.1", "a host call runs once, with TB_OK") {
  Stream stream(kit);
  Log log;
  queue(kit, stream, log, 1);
  stream.synchronize();
  stream.synchronize();
  const auto lines = log.taken();
  CHECK_EQUAL(lines.size(), size_t(1));
  CHECK_EQUAL(lines[0].status, tb_status(TB_OK));
}

TB_CASE(HST, 02, needs, "stream_host_call.1", "host calls run in the order of their stream") {
  constexpr int element_count = 1000;
  Stream stream(kit);
  Log log;
  for (int i = 0; i < element_count; ++i) queue(kit, stream, log, i);
  stream.synchronize();
  const auto lines = log.taken();
  CHECK_EQUAL(lines.size(), size_t(element_count));
  for (int i = 0; i < element_count; ++i) CHECK_EQUAL(lines[static_cast<size_t>(i)].number, i);
}

TB_CASE(HST, 03, needs, "stream_host_call.2", "a host call runs on a driver's thread, never inside the call") {
  Stream stream(kit);
  Log log;
  for (int i = 0; i < 100; ++i) {
    queue(kit, stream, log, i);
    if (i % 10 == 0) stream.synchronize(); // an idle stream is no reason to run it at once
  }
  stream.synchronize();
  for (const auto &line : log.taken()) CHECK(line.thread != std::this_thread::get_id());
}

TB_CASE(HST, 04, needs, "stream_host_call.4 T5", "later work of the stream waits for the host call") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit), other(kit);
  Event event(kit);
  struct Hold {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    void release() {
      std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    }
  } hold;
  struct Release { // also when a check fails
    Hold &hold;
    Kit &kit;
    tb_stream *stream;
    ~Release() {
      hold.release();
      kit.api().stream_synchronize(kit.self(), stream);
    }
  } release{hold, kit, stream};
  CHECK_OK(api.stream_host_call(
      self, stream,
      [](void *user, tb_status) {
        Hold &held = *static_cast<Hold *>(user);
        std::unique_lock lock(held.mutex);
        held.changed.wait_for(lock, std::chrono::seconds(10), [&] { return held.open; });
      },
      &hold));
  set_word(kit, stream, word.data(), 4);
  CHECK_OK(api.event_record(self, event, stream));
  CHECK_OK(api.stream_wait_event(self, other, event));
  check_held(kit, stream);
  check_held(kit, other);
  CHECK_EQUAL(read_word(kit, word.data()), 0u);
  hold.release();
  other.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 4u);
}

TB_CASE(HST, 05, needs | TB_GROUP_CLOSURE, "stream_host_call.3",
        "a host call also runs after a failure, with its status") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  queue(kit, stream, log, 0);
  {
    Gate gate(kit, stream); // the failure is not reported before the call is queued
    submit_failure(kit, stream, TB_INTERNAL, "a planted failure");
    queue(kit, stream, log, 1);
    gate.open();
    CHECK_STATUS(api.stream_synchronize(self, stream), TB_INTERNAL);
  }
  CHECK_OK(api.stream_synchronize(self, stream)); // reported once
  queue(kit, stream, log, 2);
  stream.synchronize();
  const auto lines = log.taken();
  CHECK_EQUAL(lines.size(), size_t(3));
  CHECK_EQUAL(lines[0].status, tb_status(TB_OK));
  CHECK_EQUAL(lines[1].status, tb_status(TB_INTERNAL));
  CHECK_EQUAL(lines[2].status, tb_status(TB_OK));
}

TB_CASE(HST, 06, needs, "stream_host_call.1", "ten thousand host calls of eight threads all run") {
  constexpr int thread_total = 8, per_thread = 1250;
  std::atomic<int> ran{0}, failed{0};
  auto [api, self] = driver_of(kit);
  Threads threads;
  for (int i = 0; i < thread_total; ++i)
    threads.start([&, api = &api, self = self] {
      Stream stream(kit);
      for (int k = 0; k < per_thread; ++k)
        if (api->stream_host_call(
                self, stream, [](void *user, tb_status) { ++*static_cast<std::atomic<int> *>(user); }, &ran) != TB_OK)
          ++failed;
      stream.synchronize();
    });
  threads.join();
  CHECK_EQUAL(failed.load(), 0);
  CHECK_EQUAL(ran.load(), thread_total * per_thread);
}

TB_CASE(HST, 07, needs, "stream_host_call.1 stream_destroy.1", "a host call of a destroyed stream still runs, once") {
  auto [api, self] = driver_of(kit);
  Log log;
  Event done(kit);
  tb_stream *stream = nullptr;
  CHECK_OK(api.stream_create(self, 0, 0, 0, &stream));
  for (int i = 0; i < 100; ++i) queue(kit, stream, log, i);
  CHECK_OK(api.event_record(self, done, stream));
  CHECK_OK(api.stream_destroy(self, stream));
  CHECK_OK(api.event_synchronize(self, done));
  CHECK_EQUAL(log.taken().size(), size_t(100));
}

TB_CASE(HST, 08, needs, "stream_host_call.1", "a host call sees what the stream's work before it has written") {
  auto [api, self] = driver_of(kit);
  constexpr uint32_t round_count = 200;
  Block word(kit, 4);
  Stream stream(kit);
  struct Round {
    uint32_t landed = UINT32_MAX, seen = UINT32_MAX;
  };
  std::vector<Round> rounds(round_count);
  for (uint32_t i = 0; i < round_count; ++i) {
    set_word(kit, stream, word.data(), i);
    CHECK_OK(api.mem_copy(self, 0, stream, &rounds[i].landed, word.data(), 4, TB_COPY_DEVICE_TO_HOST));
    CHECK_OK(api.stream_host_call(
        self, stream,
        [](void *user, tb_status) {
          Round &round = *static_cast<Round *>(user);
          round.seen = round.landed;
        },
        &rounds[i]));
  }
  stream.synchronize();
  for (uint32_t i = 0; i < round_count; ++i) CHECK_EQUAL(rounds[i].seen, i);
}

TB_CASE(HST, 09, needs | TB_GROUP_CLOSURE, "stream_host_call.6 E4",
        "a host call that received a failure has not reported it") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  {
    Gate gate(kit, stream);
    submit_failure(kit, stream, TB_INTERNAL, "a planted failure");
    queue(kit, stream, log, 0);
    gate.open();
    wait_until([&] { return log.taken().size() == 1; }, "the host call");
    CHECK_STATUS(api.stream_synchronize(self, stream), TB_INTERNAL);
  }
  CHECK_OK(api.stream_synchronize(self, stream));
  CHECK_EQUAL(log.taken().front().status, tb_status(TB_INTERNAL));
}

} // namespace
} // namespace tb::contract::host_calls_cases
