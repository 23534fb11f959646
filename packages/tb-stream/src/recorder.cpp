// recorder.cpp -- the records of all threads, and the readers that they are for.
#include "recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "recorded_calls.h"
#include "streams.h"

struct tb_recording {
  uint64_t before; // the number of the last record before its start
};

namespace tb::stream {
namespace {

// Never destroyed: queued work may end after the static destructors.
struct State {
  std::mutex mutex; // guards the lists
  std::set<tb_recording *> readers;
  std::vector<std::unique_ptr<RecordedThread>> threads;
  std::atomic<int32_t> reading{0}; // the number of readers
  std::atomic<uint64_t> numbers{0};
  std::atomic<uint64_t> beginning{0}; // counts the times that recording began
};
State &state() {
  static State *made = new State;
  return *made;
}

thread_local constinit RecordedThread *known_thread = nullptr;

// At the thread's end. What it recorded stays for the readers.
struct Leaving {
  ~Leaving() {
    State &all = state();
    std::lock_guard guard(all.mutex);
    RecordedThread *thread = std::exchange(known_thread, nullptr);
    thread->ended = true;
    if (all.readers.empty()) std::erase_if(all.threads, [](auto &each) { return each->ended; });
  }
};

// Takes what was queued after `before`; the last reader leaves nothing behind. The caller holds the recorder's lock.
std::vector<tb_record> take(State &all, uint64_t before) {
  const bool last = all.readers.empty();
  std::vector<tb_record> out;
  for (auto &thread : all.threads) {
    std::lock_guard guard(thread->mutex);
    std::ranges::copy_if(thread->records, std::back_inserter(out), [before](const tb_record &record) {
      return record.number > before && (!record.graph || record.graph > before);
    });
    if (last) std::deque<tb_record>().swap(thread->records);
  }
  if (last) std::erase_if(all.threads, [](auto &thread) { return thread->ended; });
  return out;
}

int32_t device_of(tb_stream *stream) {
  int32_t device = -1;
  if (stream_device(stream, &device) != TB_OK) drop_error();
  return device;
}

// Joins the calls and the runs, which have the same number. What ran without a known call is left out.
std::vector<tb_record> join(std::vector<tb_record> parts) {
  std::ranges::sort(parts, [](const tb_record &a, const tb_record &b) {
    return a.number != b.number ? a.number < b.number : a.call_begin > b.call_begin; // the call first
  });
  std::vector<tb_record> out;
  std::map<tb_stream *, int32_t> devices;
  for (tb_record &part : parts) {
    if (part.graph) {
      const auto launch = std::ranges::lower_bound(out, part.graph, {}, &tb_record::number);
      if (launch == out.end() || launch->number != part.graph) continue;
      std::ranges::copy(launch->pushed, part.pushed);
      part.thread = launch->thread;
      part.call_begin = launch->call_begin;
      part.call_end = launch->call_end;
    } else if (!part.call_begin) {
      if (out.empty() || out.back().number != part.number) continue;
      tb_record &call = out.back();
      if (call.device < 0) call.device = part.device; // a closure knows it
      call.begin = part.begin;
      call.end = part.end;
      continue;
    }
    if (part.stream) {
      const auto [found, fresh] = devices.try_emplace(part.stream);
      if (fresh) found->second = device_of(part.stream);
      if (found->second >= 0) part.device = found->second;
    }
    out.push_back(part);
  }
  return out;
}

std::vector<uint64_t> *pushed_here(int32_t which) {
  if (which < 0 || which > 1 || !recording()) return nullptr;
  RecordedThread *thread = this_thread();
  if (!thread) return nullptr;
  const uint64_t beginning = state().beginning.load(std::memory_order_relaxed);
  if (std::exchange(thread->beginning, beginning) != beginning)
    for (auto &numbers : thread->pushed) numbers.clear();
  return &thread->pushed[which];
}

} // namespace

RecordedThread *this_thread() noexcept try {
  if (known_thread) return known_thread;
  auto made = std::make_unique<RecordedThread>();
  made->number = syscall(SYS_gettid);
  State &all = state();
  std::lock_guard guard(all.mutex);
  all.threads.push_back(std::move(made));
  known_thread = all.threads.back().get();
  static thread_local const Leaving until_the_thread_ends;
  return known_thread;
} catch (const std::bad_alloc &) {
  return nullptr;
}

bool recording() noexcept { return state().reading.load(std::memory_order_relaxed) != 0; }

uint64_t next_record() noexcept { return state().numbers.fetch_add(1, std::memory_order_relaxed) + 1; }

void note_call(tb_record call) noexcept {
  call.call_end = now();
  if (const RecordedThread *thread = this_thread()) call.thread = thread->number;
  for (int32_t which = 0; which < 2; ++which)
    if (const auto *numbers = pushed_here(which); numbers && !numbers->empty()) call.pushed[which] = numbers->back();
  note_run(call);
}

void note_run(const tb_record &run) noexcept {
  RecordedThread *thread = recording() ? this_thread() : nullptr;
  if (!thread) return;
  try {
    std::lock_guard guard(thread->mutex);
    thread->records.push_back(run);
  } catch (const std::bad_alloc &) { // the record is left out
  }
}

tb_status record_start(tb_recording **out) {
  if (tb_status status = find_table(); status != TB_OK) return status;
  State &all = state();
  auto made = std::make_unique<tb_recording>(all.numbers.load());
  std::lock_guard guard(all.mutex);
  const bool first = all.readers.empty();
  if (first)
    if (tb_status status = observe_calls(true); status != TB_OK) return status;
  all.readers.insert(made.get());
  if (first) all.beginning.fetch_add(1);
  all.reading.fetch_add(1);
  *out = made.release();
  return TB_OK;
}

tb_status record_stop(tb_recording *recording, void (*receive)(void *user, const tb_record *record), void *user) {
  if (*host.forked) // a thread that does not exist in this process may hold the lock
    return fail(TB_FAILED_PRECONDITION, -1, "record_stop", "the process was forked: its parent ends the recording");
  State &all = state();
  std::vector<tb_record> records;
  {
    std::lock_guard guard(all.mutex);
    if (all.readers.erase(recording) == 0)
      return fail(TB_INVALID_ARGUMENT, -1, "record_stop", "there is no such recording: each is stopped once");
    const std::unique_ptr<tb_recording> owned(recording);
    all.reading.fetch_sub(1);
    if (all.readers.empty()) (void)observe_calls(false);
    records = take(all, owned->before);
  }
  if (!receive) return TB_OK;
  for (const tb_record &record : join(std::move(records))) receive(user, &record);
  return TB_OK;
}

void record_push(int32_t which, uint64_t number) {
  if (auto *numbers = pushed_here(which)) numbers->push_back(number);
}

void record_pop(int32_t which) {
  if (auto *numbers = pushed_here(which); numbers && !numbers->empty()) numbers->pop_back();
}

void record_call(tb_record *record) {
  record->number = 0;
  if (!recording()) return;
  record->number = next_record();
  record->call_begin = now();
  note_call(*record);
}

void record_run(const tb_record *record) {
  if (!record->number) return;
  tb_record run{};
  run.struct_size = sizeof run;
  run.number = record->number;
  run.device = record->device;
  run.begin = record->begin;
  run.end = record->end;
  note_run(run);
}

} // namespace tb::stream
