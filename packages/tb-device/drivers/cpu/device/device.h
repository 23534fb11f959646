// One device: its share of the host's memory and its default stream.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "drivers/common/failure.h"
#include "drivers/cpu/device/options.h"

#include "tb/driver.h"

namespace tb::drivers::cpu {

class Stream;

// Counts the bytes in use against a limit. Thread-safe.
class Budget {
public:
  explicit Budget(uint64_t limit) : limit_(limit) {}
  // False, with nothing charged, if the sum would pass the limit.
  bool charge(uint64_t bytes) noexcept {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void refund(uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t limit() const noexcept { return limit_; }
  uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

class StreamTails;

class Device {
public:
  Device(const tb_host *host, int32_t number, const Options &options, StreamTails &tails)
      : host_(host), number_(number), spin_(options.spin), tails_(tails), budget_(options.memory),
        available_(options.available) {}
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const tb_host *host() const noexcept { return host_; }
  int32_t number() const noexcept { return number_; }
  uint32_t spin() const noexcept { return spin_; }
  // Before a full queue. A thread that sleeps there leaves its processor to kernels.
  uint32_t spin_for_room() const noexcept { return spin_ / 8; }
  // Of the streams of all devices of the driver.
  StreamTails &tails() const noexcept { return tails_; }
  Budget &budget() noexcept { return budget_; }
  // Of the budget, what other programs had left at open. What this process takes is subtracted, so that the answer falls
  // and rises by exactly that; what others take later is not known. Work may use the whole budget.
  uint64_t free_memory() const noexcept { return available_ - std::min(available_, budget_.used()); }
  // Host threads in device_synchronize.
  std::atomic<uint32_t> &waiting() noexcept { return waiting_; }
  // Closures so far that a waiting thread ran.
  std::atomic<uint64_t> &run_by_waiters() noexcept { return run_by_waiters_; }
  // Failures of streams that were destroyed before they were reported; device_synchronize reports them.
  FailureSlot &orphaned_failures() noexcept { return orphaned_failures_; }
  Stream *default_stream = nullptr; // set at open, owned by the driver's list

private:
  const tb_host *const host_;
  const int32_t number_;
  const uint32_t spin_;
  StreamTails &tails_;
  Budget budget_;
  const uint64_t available_;
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint64_t> run_by_waiters_{0};
  FailureSlot orphaned_failures_;
};

} // namespace tb::drivers::cpu
