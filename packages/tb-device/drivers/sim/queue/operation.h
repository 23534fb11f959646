// One piece of queued work.
#pragma once

#include <cstdint>
#include <memory>

#include "drivers/sim/memory/device_memory.h"
#include "drivers/sim/queue/queue.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

// What an operation receives when it runs: the closure's context and the driver's memory.
struct Run {
  Memory &memory;
  Queue &queue;
  uint64_t position; // after this operation
  tb_closure_context context;
  void explain(const std::string &text) const; // sets the text of a failure
};

class Operation {
public:
  explicit Operation(std::shared_ptr<Stream> stream) : stream(std::move(stream)) {}
  virtual ~Operation() = default;
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;

  virtual const char *name() const noexcept = 0;
  virtual tb_status run(Run &run) = 0;
  // In place of run() once the device is lost.
  virtual void drop(Run &) {}
  // Runs a function of the host, which may block, and may touch device memory.
  virtual bool is_function() const noexcept { return false; }
  // Whether it is left out behind a failure that was not reported when it was queued.
  virtual bool needs_success() const noexcept { return false; }
  virtual uint64_t bytes() const noexcept { return 0; } // that it moves, for the option "bandwidth"

  const std::shared_ptr<Stream> stream; // lives at least as long as its work
  bool ready = true;                    // false between closure_reserve and closure_commit
  uint64_t units = 1;                   // of the queue's room
  // The operation may not run before this queue has reached source_position. NULL: it may run at any time.
  std::shared_ptr<Queue> source;
  uint64_t source_position = 0;
};

} // namespace tb::drivers::sim
