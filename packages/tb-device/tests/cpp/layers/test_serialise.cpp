// One call at a time reaches the driver, and waiting lets others in.
#include <thread>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

using test::LayeredDriver;

namespace {

// Counts calls that are in the driver at once, in front of the functions that the cases use.
std::atomic<int> inside{0}, most{0}, calls{0};
tb_driver_api honest{};

struct Entered {
  Entered() {
    ++calls;
    const int now = inside.fetch_add(1) + 1;
    for (int before = most.load(); before < now && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::yield();
  }
  ~Entered() { inside.fetch_sub(1); }
};

template <auto Member, class... A> void count(tb_status (*&slot)(tb_driver *, A...)) {
  slot = [](tb_driver *self, A... arguments) -> tb_status {
    Entered entered;
    return (honest.*Member)(self, arguments...);
  };
}

struct Counted : test::OpenedDriver {
  explicit Counted(const std::string &spec) {
    honest = api;
    inside = most = 0;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (api.name) count<&tb_driver_api::name>(api.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
    std::string problem;
    if (tb::layers::apply(spec, &test::host(), &api, &self, &problem) != TB_OK) throw std::runtime_error(problem);
  }
};

void use_from_threads(Counted &driver) {
  std::vector<std::thread> threads;
  for (int place = 0; place < 4; ++place)
    threads.emplace_back([&] {
      tb_stream *stream = driver.create_stream();
      for (int round = 0; round < 50; ++round) {
        void *block = driver.allocate(64);
        (void)driver.api.mem_set(driver.self, 0, stream, block, 0, 1, 64);
        (void)driver.api.stream_synchronize(driver.self, stream);
        (void)driver.api.device_synchronize(driver.self, 0);
        (void)driver.api.mem_free(driver.self, 0, block);
      }
      (void)driver.api.stream_destroy(driver.self, stream);
    });
  for (auto &thread : threads) thread.join();
}

} // namespace

CASE(without_the_layer_calls_meet_in_the_driver) {
  Counted driver("");
  use_from_threads(driver);
  CHECK(most.load() > 1); // else the next case proves nothing
}

CASE(with_it_one_call_at_a_time_reaches_the_driver) {
  Counted driver("serialise");
  use_from_threads(driver);
  CHECK_EQUAL(most.load(), 1);
}

CASE(a_thread_that_waits_lets_others_call) {
  Counted driver("serialise");
  tb_stream *stream = driver.create_stream();
  tb_event *event = driver.create_event();
  test::Gate gate;
  driver.submit(stream, [&] { gate.pass(); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  std::vector<std::thread> waiting;
  std::atomic<int> good{0};
  waiting.emplace_back([&] { good += driver.api.stream_synchronize(driver.self, stream) == TB_OK; });
  waiting.emplace_back([&] { good += driver.api.event_synchronize(driver.self, event) == TB_OK; });
  waiting.emplace_back([&] { good += driver.api.device_synchronize(driver.self, 0) == TB_OK; });
  // The three waiting threads query again and again. This thread's calls get through in between; else it hangs here.
  for (int asked = calls.load(); calls.load() < asked + 100;) {
    void *block = driver.allocate(8);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
    calls -= 2; // does not count this thread's two calls
    std::this_thread::yield();
  }
  CHECK_EQUAL(good.load(), 0);
  gate.open();
  for (auto &thread : waiting) thread.join();
  CHECK_EQUAL(good.load(), 3);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

// Eight threads fill one queue several times over, so that some wait for room while others hold a reserve.
CASE(threads_share_a_full_queue) {
  constexpr int threads = 8, each = 200;
  constexpr uint64_t size = 8192;
  static std::atomic<int> runs;
  static constexpr tb_closure closure = {sizeof(tb_closure), 0, "counted",
                                         [](void *, const tb_closure_context *) -> tb_status {
                                           ++runs;
                                           return TB_OK;
                                         },
                                         [](void *) {}};
  runs = 0;
  Counted driver("serialise");
  tb_stream *stream = driver.create_stream();
  std::vector<std::thread> users;
  for (int user = 0; user < threads; ++user)
    users.emplace_back([&] {
      for (int round = 0; round < each; ++round) {
        void *storage = nullptr;
        (void)driver.api.closure_reserve(driver.self, stream, size, &storage);
        std::this_thread::yield();
        (void)driver.api.closure_commit(driver.self, stream, storage, &closure);
      }
    });
  for (auto &user : users) user.join();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(runs.load(), threads * each);
  CHECK(most.load() <= 2); // a call that waits for room, and the one that makes room
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

CASE(a_device_synchronize_ends_while_others_enqueue) {
  LayeredDriver driver("serialise");
  tb_stream *busy = driver.create_stream();
  std::atomic<bool> stop{false}, started{false};
  std::atomic<int> queued{0};
  std::thread enqueues([&] {
    while (!stop.load()) {
      // Never done, nor with so much queued that a busy machine takes long for it.
      while (queued.load() >= 50) std::this_thread::yield();
      ++queued;
      driver.submit(busy, [&] {
        std::this_thread::yield();
        --queued;
      });
      started = true;
    }
  });
  while (!started.load()) std::this_thread::yield();
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  stop = true;
  enqueues.join();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, busy), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, busy), TB_OK);
}

CASE(a_device_synchronize_covers_destroyed_streams) {
  Counted driver("serialise");
  tb_stream *gone = driver.create_stream();
  test::Gate gate;
  driver.submit(gone, [&] { gate.pass(); });
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, gone), TB_OK);
  std::atomic<bool> done{false};
  const int before = calls.load();
  std::thread waits([&] {
    (void)driver.api.device_synchronize(driver.self, 0);
    done = true;
  });
  while (!done.load() && calls.load() < before + 50) std::this_thread::yield(); // the wait queries again and again
  const bool early = done.load();
  gate.open();
  waits.join();
  CHECK(!early);
}

CASE(a_failure_of_queued_work_is_reported_by_the_synchronise) {
  LayeredDriver driver("serialise");
  tb_stream *stream = driver.create_stream();
  driver.submit(stream, [](const tb_closure_context *) -> tb_status { return TB_DATA_LOSS; });
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}
