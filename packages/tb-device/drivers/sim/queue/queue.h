// The operations of one stream, and the handles that name it.
//
// A queue has three positions, which only grow: what was enqueued (tail), what the scheduler has chosen to run
// (planned), and what has run (done). Work is in order, so "done at position p" is all that events and waits need.
// Everything here is guarded by the scheduler's lock, except the failures, which have their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "drivers/common/failure.h"
#include "drivers/sim/device/device.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

class Operation;

class Queue {
public:
  Queue(Device &device, uint32_t number, uint32_t rank) : device(device), number(number), rank(rank) {}

  // Room in units of 64 bytes, as in the CPU driver's queue: 1 MiB in all.
  static constexpr uint64_t room_units = 16384;
  static constexpr uint64_t largest_closure = room_units / 2 * TB_CLOSURE_ALIGNMENT;

  Device &device;
  const uint32_t number; // as schedules name it, and the native handle less one
  uint32_t rank;         // the policy's preference
  uint64_t generation = 0;
  std::deque<std::shared_ptr<Operation>> operations; // from position `done` on
  uint64_t tail = 0, planned = 0, done = 0;
  uint64_t units = 0;            // of room taken
  uint32_t waiting = 0;          // host threads that wait for it
  uint64_t wake_at = UINT64_MAX; // no sleeping thread waits for a position below
  bool running = false;          // its first operation runs
  bool retired = false;          // its stream was destroyed
  uint64_t scan = 0;             // the last scan of queues that visited this one
  FailureSlot failures;

  Operation *next() const noexcept {
    return planned < tail ? operations[static_cast<size_t>(planned - done)].get() : nullptr;
  }
  bool lost() const noexcept { return device.lost.load() || generation != device.generation.load(); }
};

// What a tb_stream points to. Several share a queue where streams were wrapped.
struct Stream {
  std::shared_ptr<Queue> queue;
  bool is_default = false, is_wrapper = false;
  tb_stream *handle() noexcept { return reinterpret_cast<tb_stream *>(this); }
};

// What a tb_event points to.
struct Event {
  // What the event stands for at one moment. No queue: it was never recorded, so it is complete.
  struct Point {
    std::shared_ptr<Queue> queue;
    uint64_t position = 0;
    std::shared_ptr<const int64_t> stamp; // steady nanoseconds, valid when the position is done; only with timing
  };
  Device &device;
  const uint64_t flags;
  const uint64_t generation;
  Point point;
};

} // namespace tb::drivers::sim
