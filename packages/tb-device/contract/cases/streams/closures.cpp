// CLO: host work built in place in the stream's own queue.
#include <cstring>
#include <numeric>

#include "contract/support/probe.h"

namespace tb::contract::closures_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_CLOSURE;

// What closures did, in order.
struct Log {
  std::mutex mutex;
  std::vector<int> ran, destroyed;
  std::atomic<int> runs{0}, destroys{0}, wrong{0}, destroyed_in_commit{0};
  std::thread::id thread;
};

thread_local bool in_commit = false;

// Put into the storage; `fails` is what run returns.
struct Piece {
  Log *log;
  int number;
  tb_status fails;
};

tb_status run_piece(void *storage, const tb_closure_context *context) {
  const Piece &piece = *static_cast<Piece *>(storage);
  std::lock_guard lock(piece.log->mutex);
  piece.log->ran.push_back(piece.number);
  piece.log->thread = std::this_thread::get_id();
  ++piece.log->runs;
  if (piece.fails != TB_OK)
    std::snprintf(context->error_text, context->error_capacity, "piece %d breaks", piece.number);
  return piece.fails;
}

void destroy_piece(void *storage) {
  const Piece &piece = *static_cast<Piece *>(storage);
  std::lock_guard lock(piece.log->mutex);
  piece.log->destroyed.push_back(piece.number);
  ++piece.log->destroys;
  piece.log->destroyed_in_commit += in_commit;
}

const tb_closure piece_closure = {sizeof(tb_closure), 0, "contract_piece", run_piece, destroy_piece};

// The storage, with the piece in it.
void *reserve(Kit &kit, tb_stream *stream, Log &log, int number, tb_status fails = TB_OK,
              uint64_t size = sizeof(Piece)) {
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, size, &storage));
  return new (storage) Piece{&log, number, fails};
}

void commit(Kit &kit, tb_stream *stream, void *storage) {
  in_commit = true;
  const tb_status status = kit.api().closure_commit(kit.self(), stream, storage, &piece_closure);
  in_commit = false;
  CHECK_OK(status);
}

TB_CASE(CLO, 01, needs, "closure_commit.1", "a closure runs once and is destroyed once, on a driver's thread") {
  Stream stream(kit);
  Log log;
  for (int i = 0; i < 100; ++i) commit(kit, stream, reserve(kit, stream, log, i));
  stream.synchronize();
  stream.synchronize();
  std::lock_guard lock(log.mutex);
  CHECK_EQUAL(log.ran.size(), size_t(100));
  CHECK_EQUAL(log.destroyed.size(), size_t(100));
  for (int i = 0; i < 100; ++i) {
    CHECK_EQUAL(log.ran[static_cast<size_t>(i)], i);
    CHECK_EQUAL(log.destroyed[static_cast<size_t>(i)], i);
  }
  CHECK(log.thread != std::this_thread::get_id());
  CHECK_EQUAL(log.destroyed_in_commit.load(), 0);
}

TB_CASE(CLO, 02, needs, "closure_reserve.2", "closures run in the order of the reserves, not of the commits") {
  Stream stream(kit);
  Log log;
  void *first = reserve(kit, stream, log, 1);
  void *third = nullptr;
  Threads threads; // several threads are between reserve and commit at once
  threads.start([&] {
    void *second = reserve(kit, stream, log, 2);
    third = reserve(kit, stream, log, 3);
    commit(kit, stream, second);
  });
  threads.join();
  commit(kit, stream, third);
  const double until = seconds_now() + 0.02;
  while (seconds_now() < until && log.runs == 0) std::this_thread::yield();
  CHECK_EQUAL(log.runs.load(), 0); // the first is not there yet
  commit(kit, stream, first);
  stream.synchronize();
  CHECK(log.ran == std::vector<int>({1, 2, 3}));
}

TB_CASE(CLO, 03, needs, "closure_cancel.1 closure_cancel.2", "a cancelled reserve calls nothing and holds nothing up") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  for (int i = 0; i < 50; ++i) {
    void *dropped = reserve(kit, stream, log, -1);
    void *kept = reserve(kit, stream, log, i);
    commit(kit, stream, kept);
    CHECK_OK(api.closure_cancel(self, stream, dropped));
  }
  stream.synchronize();
  CHECK_EQUAL(log.runs.load(), 50);
  CHECK_EQUAL(log.destroys.load(), 50);
  for (size_t i = 0; i < 50; ++i) CHECK_EQUAL(log.ran[i], static_cast<int>(i));
}

// 16 MiB of closures of 64 KiB from a thread of their own, numbered on from 0.
class Filling {
public:
  static constexpr int element_count = 256;

  Filling(Kit &kit, tb_stream *stream, Log &log) {
    threads_.start([this, &kit, stream, &log] {
      for (int i = 0; i < element_count; ++i) {
        commit(kit, stream, reserve(kit, stream, log, i, TB_OK, 64 * 1024));
        ++queued_;
      }
    });
  }
  // Returns once all are queued, or the thread waits for room: it stands still for longer than a busy machine leaves a
  // thread that could run.
  void wait_until_full(Kit &kit) {
    double still = seconds_now();
    for (int seen = 0; queued_ < element_count && seconds_now() - still < (seen == 0 ? 3 : 0.25);) {
      if (queued_ != seen) still = seconds_now();
      seen = queued_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kit.state(queued_ < element_count
                  ? "closure_reserve waits once " + std::to_string(queued_) + " closures of 64 KiB are queued"
                  : "256 closures of 64 KiB fit in a queue");
  }
  void join() { threads_.join(); }

private:
  std::atomic<int> queued_{0};
  Threads threads_;
};

TB_CASE(CLO, 04, needs, "closure_reserve.3", "a full queue makes the reserve wait, and loses nothing", .seconds = 60) {
  Stream stream(kit);
  Log log;
  Gate gate(kit, stream);
  Filling filling(kit, stream, log);
  filling.wait_until_full(kit);
  CHECK_EQUAL(log.runs.load(), 0);
  gate.open();
  filling.join();
  stream.synchronize();
  CHECK_EQUAL(log.destroys.load(), Filling::element_count);
  for (size_t i = 0; i < Filling::element_count; ++i) CHECK_EQUAL(log.ran[i], static_cast<int>(i));
}

TB_CASE(CLO, 05, needs, "closure_reserve.4 closure_reserve.1", "64 KiB of storage reach the run whole") {
  auto [api, self] = driver_of(kit);
  struct Large {
    Log *log;
    uint32_t words[(64 * 1024 - sizeof(Log *)) / 4];
  };
  static_assert(sizeof(Large) == 64 * 1024);
  static constexpr tb_closure closure = {sizeof(tb_closure), 0, "contract_large",
                                         [](void *storage, const tb_closure_context *) -> tb_status {
                                           const Large &large = *static_cast<Large *>(storage);
                                           for (uint32_t i = 0; i < std::size(large.words); ++i)
                                             if (large.words[i] != i * 2654435761u) ++large.log->wrong;
                                           ++large.log->runs;
                                           return TB_OK;
                                         },
                                         [](void *storage) { ++static_cast<Large *>(storage)->log->destroys; }};
  Stream stream(kit);
  Log log;
  for (int round = 0; round < 40; ++round) { // past the end of a queue, and round again
    void *storage = nullptr;
    CHECK_OK(api.closure_reserve(self, stream, sizeof(Large), &storage));
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(storage) % TB_CLOSURE_ALIGNMENT, uintptr_t(0));
    auto *large = new (storage) Large;
    large->log = &log;
    for (uint32_t i = 0; i < std::size(large->words); ++i) large->words[i] = i * 2654435761u;
    CHECK_OK(api.closure_commit(self, stream, storage, &closure));
  }
  stream.synchronize();
  CHECK_EQUAL(log.runs.load(), 40);
  CHECK_EQUAL(log.destroys.load(), 40);
  CHECK_EQUAL(log.wrong.load(), 0);
}

TB_CASE(CLO, 06, needs, "closure_commit.6",
        "what is queued behind a failing run is left out, and what is queued after the report runs") {
  auto [api, self] = driver_of(kit);
  Block words(kit, 8);
  words.fill(0);
  Stream stream(kit);
  Log log;
  commit(kit, stream, reserve(kit, stream, log, 1, TB_INTERNAL));
  commit(kit, stream, reserve(kit, stream, log, 2));
  set_word(kit, stream, words.data(), 6);
  set_word(kit, stream, words.data() + 4, 7);
  CHECK_STATUS(api.stream_synchronize(self, stream), TB_INTERNAL);
  CHECK(log.ran == std::vector<int>({1}));
  CHECK(log.destroyed == std::vector<int>({1, 2}));
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>({0, 0}));
  commit(kit, stream, reserve(kit, stream, log, 3));
  set_word(kit, stream, words.data(), 8);
  copy_word(kit, stream, words.data() + 4, words.data());
  stream.synchronize();
  CHECK(log.ran == std::vector<int>({1, 3}));
  CHECK(log.destroyed == std::vector<int>({1, 2, 3}));
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>({8, 8}));
}

TB_CASE(CLO, 07, needs, "closure_commit.3 E4", "a failure is reported once, with the operation's name and text") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  commit(kit, stream, reserve(kit, stream, log, 7, TB_UNAVAILABLE));
  CHECK_EQUAL(api.stream_synchronize(self, stream), tb_status(TB_UNAVAILABLE));
  const std::string text = kit.take_error().text;
  CHECK(text.find("contract_piece") != std::string::npos);
  CHECK(text.find("piece 7 breaks") != std::string::npos);
  CHECK_OK(api.stream_synchronize(self, stream));
  CHECK_OK(api.stream_query(self, stream));
  CHECK_OK(api.device_synchronize(self, 0));
}

TB_CASE(CLO, 08, needs, "closure_commit.3", "of several failures the first is reported") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  {
    Gate gate(kit, stream);
    Event event(kit);
    commit(kit, stream, reserve(kit, stream, log, 1, TB_DATA_LOSS));
    commit(kit, stream, reserve(kit, stream, log, 2, TB_ABORTED));
    CHECK_OK(api.event_record(self, event, stream));
    gate.open();
    CHECK_EQUAL(poll([&, api = &api, self = self] { return api->event_query(self, event); }), tb_status(TB_DATA_LOSS));
    CHECK(kit.take_error().text.find("piece 1 breaks") != std::string::npos);
  }
  CHECK_OK(api.stream_synchronize(self, stream));
}

TB_CASE(CLO, 09, needs, "closure_reserve.2 closure_commit.1 T3",
        "eight threads share a stream: all run, each in its order") {
  constexpr int thread_total = 8, per_thread = 1000;
  Stream stream(kit);
  Log log;
  Threads threads;
  for (int thread = 0; thread < thread_total; ++thread)
    threads.start([&, thread] {
      for (int i = 0; i < per_thread; ++i) commit(kit, stream, reserve(kit, stream, log, thread * per_thread + i));
    });
  threads.join();
  stream.synchronize();
  CHECK_EQUAL(log.runs.load(), thread_total * per_thread);
  CHECK_EQUAL(log.destroys.load(), thread_total * per_thread);
  CHECK_EQUAL(log.destroyed_in_commit.load(), 0);
  std::vector<int> next(thread_total);
  for (const int number : log.ran) {
    int &expected = next[static_cast<size_t>(number / per_thread)];
    CHECK_EQUAL(number % per_thread, expected);
    ++expected;
  }
}

TB_CASE(CLO, 10, needs, "closure_reserve.4 E1", "a size beyond any queue is out of range, and the stream goes on") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  void *storage = &log;
  for (const uint64_t size : {uint64_t(1) << 40, UINT64_MAX, UINT64_MAX - 63}) {
    CHECK_STATUS(api.closure_reserve(self, stream, size, &storage), TB_OUT_OF_RANGE);
    CHECK_EQUAL(storage, static_cast<void *>(&log));
  }
  commit(kit, stream, reserve(kit, stream, log, 1));
  stream.synchronize();
  CHECK_EQUAL(log.runs.load(), 1);
}

TB_CASE(CLO, 11, needs, "closure_reserve.1", "storage of any size is aligned and nobody else's") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  struct Reserve {
    uint8_t *storage;
    uint64_t size;
  };
  std::vector<Reserve> reserves;
  for (const uint64_t size : {1, 8, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097}) {
    void *storage = nullptr;
    CHECK_OK(api.closure_reserve(self, stream, size, &storage));
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(storage) % TB_CLOSURE_ALIGNMENT, uintptr_t(0));
    std::memset(storage, static_cast<int>(reserves.size() + 1), size);
    reserves.push_back({static_cast<uint8_t *>(storage), size});
  }
  for (size_t i = 0; i < reserves.size(); ++i)
    for (uint64_t byte = 0; byte < reserves[i].size; ++byte) CHECK_EQUAL(size_t(reserves[i].storage[byte]), i + 1);
  for (const Reserve &one : reserves) CHECK_OK(api.closure_cancel(self, stream, one.storage));
  stream.synchronize();
}

TB_CASE(CLO, 12, needs, "closure_commit.1", "a closure receives its stream and device, and room for a text") {
  auto [api, self] = driver_of(kit);
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    Stream stream(kit, device);
    tb_closure_context seen{};
    static constexpr tb_closure closure = {sizeof(tb_closure), 0, "contract_context",
                                           [](void *storage, const tb_closure_context *context) -> tb_status {
                                             **static_cast<tb_closure_context **>(storage) = *context;
                                             return TB_OK;
                                           },
                                           [](void *) {}};
    void *storage = nullptr;
    CHECK_OK(api.closure_reserve(self, stream, sizeof(void *), &storage));
    *static_cast<tb_closure_context **>(storage) = &seen;
    CHECK_OK(api.closure_commit(self, stream, storage, &closure));
    stream.synchronize();
    CHECK(seen.struct_size >= sizeof(tb_closure_context));
    CHECK_EQUAL(seen.device, device);
    CHECK_EQUAL(seen.stream, static_cast<tb_stream *>(stream));
    CHECK(seen.error_text != nullptr);
    CHECK(seen.error_capacity >= 64);
  }
}

// A reserve is open, and another thread waits for the room that only its end makes.
void end_a_reserve_before_a_full_queue(Kit &kit, bool commits) {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Log log;
  void *first = reserve(kit, stream, log, -1);
  Filling filling(kit, stream, log);
  filling.wait_until_full(kit);
  CHECK_EQUAL(log.runs.load(), 0);
  if (commits)
    commit(kit, stream, first);
  else
    CHECK_OK(api.closure_cancel(self, stream, first));
  filling.join();
  stream.synchronize();
  std::vector<int> expected(Filling::element_count);
  std::iota(expected.begin(), expected.end(), 0);
  if (commits) expected.insert(expected.begin(), -1);
  CHECK(log.ran == expected);
  CHECK(log.destroyed == expected);
}

TB_CASE(CLO, 13, needs, "closure_reserve.2 closure_reserve.3",
        "a commit gets in while another thread waits for the room that it makes") {
  end_a_reserve_before_a_full_queue(kit, true);
}

TB_CASE(CLO, 14, needs, "closure_reserve.2 closure_reserve.3",
        "a cancel gets in while another thread waits for the room that it makes") {
  end_a_reserve_before_a_full_queue(kit, false);
}

} // namespace
} // namespace tb::contract::closures_cases
