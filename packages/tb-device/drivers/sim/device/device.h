// One simulated device: whether it is lost, and failures that no stream keeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "drivers/common/failure.h"

namespace tb::drivers::sim {

struct Device {
  explicit Device(int32_t number) : number(number) {}
  const int32_t number;
  std::atomic<bool> lost{false};
  std::atomic<uint64_t> generation{0}; // raised by each reset; queues and events of an earlier one are gone
  FailureSlot failures;                // of destroyed streams; the next device_synchronize reports them
  FailureSlot bugs;                    // of no stream; the next synchronise of any stream reports them
  uint32_t waiting = 0;                // host threads in device_synchronize
};

} // namespace tb::drivers::sim
