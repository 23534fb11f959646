// recorded_table.h -- the driver's table that the recorder changes, for the files that have its functions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "host.h"

namespace tb::stream {

// A kind of closures with a header, under the name of the kind inside.
struct WrappedKind {
  tb_closure own;
  const tb_closure *inner;
};

struct RecordedTable {
  std::mutex mutex; // guards what follows, except the atomics
  bool recording = false;
  int32_t captures = 0, interruptible = 0;
  bool ended = false;
  std::unordered_map<const tb_closure *, std::unique_ptr<WrappedKind>> kinds;
  tb_driver_api *table = nullptr; // this and the next two are constant once they are found
  tb_driver *self = nullptr;
  tb_driver_api driver{};  // the driver's own entries
  tb_driver_api beneath{}; // what the table has without interruptible captures; its entries are written atomically
  std::atomic<bool> wrapping{false};
  // Storage with a header that is neither committed nor cancelled, which only functions of recorded_closures.cpp can
  // handle. They leave the table when it is 0 and `wrapping` is false. A reserve counts first and then looks at
  // `wrapping`.
  std::atomic<int64_t> reserved{0};
};
RecordedTable &recorded_table();

// Puts the functions of closures into the table or takes them out, as `wrapping` says. The caller holds the lock.
void put_closure_functions(RecordedTable &all);
// Puts the functions that interrupt captures in front of those beneath, or takes them out. The caller holds the lock.
void put_interrupting_functions(RecordedTable &all);

bool is_captured(tb_stream *stream);

template <class Slot> void put(Slot &slot, Slot function) { std::atomic_ref(slot).store(function); }

} // namespace tb::stream
