// test_recorder.cpp -- recordings over a driver of the test, whose streams run when a test says so. Run it under
// ThreadSanitizer.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "host.h"
#include "table.h"

struct alignas(TB_CLOSURE_ALIGNMENT) Line {
  char bytes[TB_CLOSURE_ALIGNMENT];
};
struct Piece {
  std::unique_ptr<Line[]> storage; // NULL: `call` is what runs
  const tb_closure *closure = nullptr;
  std::function<void()> call;
  bool cancelled = false;
};
struct tb_stream {
  std::mutex mutex;
  std::deque<Piece> pieces;
};

namespace {

tb_stream standard;
int32_t forked = 0;
thread_local tb_status last_error = TB_OK;
std::vector<void (*)(void *)> shutdowns;
uint64_t refused_size = UINT64_MAX; // the size from which on a reserve is out of range
const tb_stream_table &table = tb::stream::stream_table;

tb_status reserve(tb_driver *, tb_stream *stream, uint64_t size, void **out) {
  if (size >= refused_size) return TB_OUT_OF_RANGE;
  std::lock_guard guard(stream->mutex);
  Piece &piece = stream->pieces.emplace_back();
  piece.storage = std::make_unique<Line[]>(size / sizeof(Line) + 1);
  *out = piece.storage.get();
  return TB_OK;
}
Piece &piece_of(tb_stream *stream, void *storage) {
  for (Piece &piece : stream->pieces)
    if (piece.storage.get() == storage) return piece;
  CHECK(!"storage of this stream");
  abort();
}
tb_status commit(tb_driver *, tb_stream *stream, void *storage, const tb_closure *closure) {
  std::lock_guard guard(stream->mutex);
  piece_of(stream, storage).closure = closure;
  return TB_OK;
}
tb_status cancel(tb_driver *, tb_stream *stream, void *storage) {
  std::lock_guard guard(stream->mutex);
  piece_of(stream, storage).cancelled = true;
  return TB_OK;
}

// What the closure that runs now has behind it.
struct Running {
  tb_closure_context context;
  tb_stream *stream;

  static const tb_closure *next(const tb_closure_context *context, void **storage) {
    auto &pieces = reinterpret_cast<const Running *>(context)->stream->pieces;
    size_t place = 0;
    while (*storage && pieces[place].storage.get() != *storage) ++place;
    if (++place >= pieces.size() || !pieces[place].closure) return nullptr;
    *storage = pieces[place].storage.get();
    return pieces[place].closure;
  }
};

// Runs what is queued; the first of the pieces is the one that runs.
void run_all(tb_stream *stream) {
  while (!stream->pieces.empty()) {
    Piece &piece = stream->pieces.front();
    if (piece.call) piece.call();
    if (piece.storage && !piece.cancelled) {
      Running running{};
      running.context.struct_size = sizeof running.context;
      running.context.stream = running.stream = stream;
      running.context.next = &Running::next;
      piece.closure->run(piece.storage.get(), &running.context);
      piece.closure->destroy(piece.storage.get());
    }
    stream->pieces.pop_front();
  }
}

tb_driver_api make_api() {
  tb_driver_api api{};
  api.stream_default = [](tb_driver *, int32_t, tb_stream **out) -> tb_status {
    *out = &standard;
    return TB_OK;
  };
  api.closure_reserve = reserve;
  api.closure_commit = commit;
  api.closure_cancel = cancel;
  api.stream_host_call = [](tb_driver *, tb_stream *stream, void (*function)(void *, tb_status),
                            void *user) -> tb_status {
    std::lock_guard guard(stream->mutex);
    stream->pieces.emplace_back().call = [=] { function(user, TB_OK); };
    return TB_OK;
  };
  api.mem_copy = [](tb_driver *, int32_t, tb_stream *, void *, const void *, uint64_t, int32_t) -> tb_status {
    return TB_OK;
  };
  api.stream_synchronize = [](tb_driver *, tb_stream *) -> tb_status { return TB_OK; };
  return api;
}
tb_driver_api api = make_api();
const tb_driver_api original = make_api();

void install() {
  tb::host.driver = [](const tb_driver_api **out_api, tb_driver **out_self) -> tb_status {
    *out_api = &api;
    *out_self = nullptr;
    return TB_OK;
  };
  tb::host.device_count = [](int32_t *out) -> tb_status {
    *out = 1;
    return TB_OK;
  };
  tb::host.set_error = [](tb_status status, int64_t, int32_t, const char *, const char *text) {
    CHECK(text[0]);
    last_error = status;
  };
  tb::host.take_error = [](tb_error *) -> int32_t { return 0; };
  tb::host.on_shutdown = [](void (*function)(void *), void *) -> tb_status {
    shutdowns.push_back(function);
    return TB_OK;
  };
  tb::host.forked = &forked;
  CHECK(table.default_stream(0) == &standard);
}

// ---- what a test queues --------------------------------------------------------------------------------------------

struct Counting {
  std::atomic<int> *count;
};
tb_status run_counting(void *storage, const tb_closure_context *) {
  static_cast<Counting *>(storage)->count->fetch_add(1);
  return TB_OK;
}
void destroy_nothing(void *) {}
const tb_closure counting = {sizeof(tb_closure), 0, "counting", run_counting, destroy_nothing};

template <class Slot> Slot now_in(Slot &slot) { return std::atomic_ref(slot).load(); } // others may exchange it

void *reserve_counting(tb_stream *stream, std::atomic<int> *count) {
  void *storage = nullptr;
  CHECK(now_in(api.closure_reserve)(nullptr, stream, sizeof(Counting), &storage) == TB_OK);
  return new (storage) Counting{count};
}
void queue_counting(tb_stream *stream, std::atomic<int> *count) {
  void *storage = reserve_counting(stream, count);
  CHECK(now_in(api.closure_commit)(nullptr, stream, storage, &counting) == TB_OK);
}

tb_recording *start() {
  tb_recording *out = nullptr;
  CHECK(table.record_start(&out) == TB_OK && out);
  return out;
}
std::vector<tb_record> stop(tb_recording *recording) {
  std::vector<tb_record> out;
  const auto keep = [](void *user, const tb_record *record) {
    static_cast<std::vector<tb_record> *>(user)->push_back(*record);
  };
  CHECK(table.record_stop(recording, keep, &out) == TB_OK);
  for (size_t place = 1; place < out.size(); ++place) CHECK(out[place - 1].number < out[place].number);
  return out;
}
bool table_is_the_drivers() { return std::memcmp(&api, &original, sizeof api) == 0; }

// ---- tests ---------------------------------------------------------------------------------------------------------

void each_reader_has_what_was_queued_in_its_time() {
  std::atomic<int> count{0};
  queue_counting(&standard, &count);
  tb_recording *first = start();
  queue_counting(&standard, &count);
  tb_recording *second = start();
  queue_counting(&standard, &count);
  run_all(&standard);
  const std::vector<tb_record> of_first = stop(first);
  CHECK(!table_is_the_drivers());
  queue_counting(&standard, &count);
  run_all(&standard);
  const std::vector<tb_record> of_second = stop(second);
  CHECK(table_is_the_drivers());
  CHECK(count == 4 && of_first.size() == 2 && of_second.size() == 2);
  CHECK(of_first[1].number == of_second[0].number);
  for (const tb_record &record : of_second) {
    CHECK(record.kind == TB_RECORD_KERNEL && record.stream == &standard && record.device == 0);
    CHECK(strcmp(record.name, "counting") == 0);
    CHECK(record.call_begin <= record.call_end && record.call_begin <= record.begin && record.begin <= record.end);
  }
  CHECK(table.record_stop(second, nullptr, nullptr) == TB_INVALID_ARGUMENT);
}

void work_that_ends_after_the_recording_is_incomplete() {
  std::atomic<int> count{0};
  tb_recording *recording = start();
  queue_counting(&standard, &count);
  int from = 0, to = 0;
  CHECK(api.mem_copy(nullptr, 0, &standard, &to, &from, 4, TB_COPY_DEVICE_TO_DEVICE) == TB_OK);
  const std::vector<tb_record> records = stop(recording);
  CHECK(records.size() == 2 && records[0].end == 0 && records[1].end == 0);
  run_all(&standard);
  CHECK(count == 1);
}

void copies_and_waits_say_what_they_are() {
  tb_recording *recording = start();
  int from = 0, to = 0;
  CHECK(api.mem_copy(nullptr, 0, &standard, &to, &from, 4, TB_COPY_HOST_TO_DEVICE) == TB_OK);
  run_all(&standard);
  CHECK(api.stream_synchronize(nullptr, &standard) == TB_OK);
  const std::vector<tb_record> records = stop(recording);
  CHECK(records.size() == 2);
  CHECK(records[0].kind == TB_RECORD_COPY && records[0].copy_kind == TB_COPY_HOST_TO_DEVICE && records[0].bytes == 4);
  CHECK(records[0].begin && records[0].begin <= records[0].end);
  CHECK(records[1].kind == TB_RECORD_WAIT && records[1].stream == &standard && !records[1].end);
}

void storage_outlives_the_recording_in_which_it_was_reserved() {
  std::atomic<int> count{0};
  void *before = reserve_counting(&standard, &count);
  tb_recording *recording = start();
  CHECK(api.closure_commit(nullptr, &standard, before, &counting) == TB_OK);
  void *inside = reserve_counting(&standard, &count), *dropped = reserve_counting(&standard, &count);
  CHECK(stop(recording).empty());
  CHECK(!table_is_the_drivers() && api.closure_reserve == original.closure_reserve);
  CHECK(api.closure_commit(nullptr, &standard, inside, &counting) == TB_OK);
  CHECK(!table_is_the_drivers());
  CHECK(api.closure_cancel(nullptr, &standard, dropped) == TB_OK);
  CHECK(table_is_the_drivers());
  run_all(&standard);
  CHECK(count == 2);
}

void numbers_are_the_threads_own_and_a_recording_begins_without() {
  std::atomic<int> count{0};
  table.record_push(TB_PUSHED_OPERATOR, 1); // nobody records
  tb_recording *recording = start();
  queue_counting(&standard, &count);
  table.record_push(TB_PUSHED_OPERATOR, 7);
  table.record_push(TB_PUSHED_RANGE, 8);
  table.record_push(TB_PUSHED_OPERATOR, 9);
  queue_counting(&standard, &count);
  std::thread([&] { queue_counting(&standard, &count); }).join();
  table.record_pop(TB_PUSHED_OPERATOR);
  queue_counting(&standard, &count);
  std::vector<tb_record> records = stop(recording);
  const auto pushed = [&](size_t place) { return std::pair(records[place].pushed[0], records[place].pushed[1]); };
  using Pair = std::pair<uint64_t, uint64_t>;
  CHECK(records.size() == 4 && pushed(0) == Pair() && pushed(1) == Pair(9, 8) && pushed(2) == Pair());
  CHECK(pushed(3) == Pair(7, 8) && records[2].thread != records[1].thread);
  recording = start(); // 7 and 8 were never taken away
  table.record_pop(TB_PUSHED_OPERATOR);
  table.record_pop(2);
  queue_counting(&standard, &count);
  records = stop(recording);
  CHECK(records.size() == 1 && pushed(0) == Pair());
  run_all(&standard);
}

void a_closure_that_fits_without_a_header_only_is_not_recorded() {
  std::atomic<int> count{0};
  tb_recording *recording = start();
  refused_size = sizeof(Counting) + 1;
  queue_counting(&standard, &count);
  refused_size = UINT64_MAX;
  CHECK(stop(recording).empty() && table_is_the_drivers());
  run_all(&standard);
  CHECK(count == 1);
}

// The closures that one found behind it; -1: it could not look ahead.
std::atomic<int> behind{0};
tb_status look(void *, const tb_closure_context *context) {
  behind = context->next ? 0 : -1;
  void *storage = nullptr;
  while (const tb_closure *kind = context->next ? context->next(context, &storage) : nullptr) {
    CHECK(kind == &counting);
    static_cast<Counting *>(storage)->count->fetch_add(10);
    ++behind;
  }
  return TB_OK;
}
const tb_closure looking = {sizeof(tb_closure), 0, "looking", look, destroy_nothing};

// Queues one that looks, and three behind it: the one in the middle without a header.
void queue_looking(std::atomic<int> *count) {
  void *storage = nullptr, *plain = nullptr;
  CHECK(api.closure_reserve(nullptr, &standard, 1, &storage) == TB_OK);
  CHECK(api.closure_commit(nullptr, &standard, storage, &looking) == TB_OK);
  queue_counting(&standard, count);
  CHECK(original.closure_reserve(nullptr, &standard, sizeof(Counting), &plain) == TB_OK);
  new (plain) Counting{count};
  CHECK(original.closure_commit(nullptr, &standard, plain, &counting) == TB_OK);
  queue_counting(&standard, count);
}

void a_closure_sees_those_behind_it_without_headers() {
  std::atomic<int> count{0};
  tb_recording *recording = start();
  queue_looking(&count);
  CHECK(stop(recording).size() == 3); // the calls of the three with headers
  run_all(&standard);
  CHECK(behind == 3 && count == 33);
}

void a_recorded_closure_runs_alone() {
  std::atomic<int> count{0};
  tb_recording *recording = start();
  queue_looking(&count);
  run_all(&standard);
  CHECK(stop(recording).size() == 3 && behind == -1 && count == 3);
}

void threads_queue_while_recordings_begin_and_end() {
  constexpr int threads = 3, turns = 30;
  static tb_stream streams[threads];
  std::atomic<int> count{0}, queued{0};
  std::atomic<bool> ended{false};
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number)
    all.emplace_back([&, number] {
      while (!ended) {
        queue_counting(&streams[number], &count);
        ++queued;
        void *dropped = reserve_counting(&streams[number], &count);
        CHECK(now_in(api.closure_cancel)(nullptr, &streams[number], dropped) == TB_OK);
        run_all(&streams[number]);
        std::this_thread::yield();
      }
    });
  size_t records = 0;
  for (int turn = 0; turn < turns; ++turn) {
    tb_recording *first = start();
    const int before = count;
    while (count < before + threads + 2) std::this_thread::yield(); // at least one of them was queued just now
    tb_recording *second = start();
    records += stop(first).size();
    stop(second);
  }
  ended = true;
  for (std::thread &thread : all) thread.join();
  CHECK(count == queued && records >= turns && table_is_the_drivers());
}

void the_end_of_the_process_ends_recording() {
  tb_recording *recording = start(), *late = nullptr;
  CHECK(!table_is_the_drivers());
  for (size_t place = shutdowns.size(); place-- > 0;) shutdowns[place](nullptr);
  CHECK(api.closure_reserve == original.closure_reserve && api.mem_copy == original.mem_copy);
  CHECK(stop(recording).empty());
  CHECK(table.record_start(&late) == TB_FAILED_PRECONDITION && last_error == TB_FAILED_PRECONDITION && !late);
}

} // namespace

int main() {
  install();
  each_reader_has_what_was_queued_in_its_time();
  work_that_ends_after_the_recording_is_incomplete();
  copies_and_waits_say_what_they_are();
  storage_outlives_the_recording_in_which_it_was_reserved();
  numbers_are_the_threads_own_and_a_recording_begins_without();
  a_closure_that_fits_without_a_header_only_is_not_recorded();
  a_closure_sees_those_behind_it_without_headers();
  a_recorded_closure_runs_alone();
  threads_queue_while_recordings_begin_and_end();
  the_end_of_the_process_ends_recording();
}
