// recorder.h -- what is queued on streams, when it runs, and what the host waits for; for any number of readers.
//
// Each thread keeps a list of the calls that it makes, and each worker a list of what it runs. The end of a recording
// joins them by the numbers of the records. Queued work refers to no record, so it may end after the recording.
// recorded_calls.h says where the calls come from. All functions are thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "host.h"

namespace tb::stream {

struct WrappedKind;

// What one thread knows of itself. Only the thread uses it, except for `records`.
struct RecordedThread {
  std::mutex mutex; // guards `records`, which the end of a recording reads
  std::deque<tb_record> records;
  std::vector<uint64_t> pushed[2];
  uint64_t beginning = 0;       // of the recordings in which `pushed` was pushed
  int64_t number = 0;           // of the system
  uint64_t graph = 0;           // the launch whose operations the thread runs now
  std::vector<void *> reserved; // storage with a header, neither committed nor cancelled yet
  std::unordered_map<const tb_closure *, const WrappedKind *> kinds;
  bool ended = false; // guarded by the recorder's lock
};
// NULL if there is no memory for it; the thread's work is not recorded then.
RecordedThread *this_thread() noexcept;

// tb_stream_table says what these six do.
tb_status record_start(tb_recording **out);
tb_status record_stop(tb_recording *recording, void (*receive)(void *user, const tb_record *record), void *user);
void record_push(int32_t which, uint64_t number);
void record_pop(int32_t which);
void record_call(tb_record *record);
void record_run(const tb_record *record);

bool recording() noexcept;
uint64_t next_record() noexcept;

inline int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A call of this thread, which has ended now; `call` has kind, name, number and beginning.
void note_call(tb_record call) noexcept;
// An operation that ran on this thread, of the call with that number. Those of a graph have no call: they have `graph`,
// a kind and a name.
void note_run(const tb_record &run) noexcept;

} // namespace tb::stream
