// A failure of queued work, kept until one wait reports it, and what is not run because of it (closure_commit.3 and
// closure_commit.6).
//
// Each stream has a FailureSlot with its own failures and those that it took over where it waited for another stream. Work
// that comes after a failure is left out if it was queued before the failure was reported, on whichever stream it was
// reported. So a report notes how far the queue of each stream had grown by then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tb/driver.h"

namespace tb::drivers {

// How far a queue has grown. Numbers of queues are never used twice.
struct QueueTail {
  uint64_t queue, tail;
};

// The queues of a driver, also of destroyed streams that still run. Thread-safe.
class QueueTails {
public:
  virtual std::vector<QueueTail> tails() = 0;

protected:
  ~QueueTails() = default;
};

// Shared by the stream where it happened and the streams that waited for that stream. The first of them that is asked
// reports it.
struct Failure {
  tb_status status = TB_OK;
  char text[960] = "";
  std::atomic<bool> reported{false};
  std::atomic<uint32_t> later{0}; // later failures, whose texts were dropped

  // Whether the piece of work of `queue` that ends at `end` was queued before the report. True as long as there is none.
  bool came_before_report(uint64_t queue, uint64_t end) const noexcept;
  // To be called once, by who has set `reported`.
  void set_report(std::vector<QueueTail> tails) noexcept;

private:
  std::vector<QueueTail> tails_; // constant once reported_ is set
  std::atomic<bool> reported_{false};
};

// The failures of one stream, each with the position in the stream from which a wait covers it.
class FailureSlot {
public:
  // Thread-safe. A failure of the stream's own work is dropped, and counted by the older one, if one is not reported yet.
  void keep(std::shared_ptr<Failure> failure, uint64_t position);
  // Takes over what a wait for `position` of `source` covers. The wait is the work of `queue` that ends at `end`.
  void inherit(FailureSlot &source, uint64_t position, uint64_t queue, uint64_t end);
  // The first failure that a wait for `position` covers and that is not reported, or NULL. It stays kept and unreported.
  std::shared_ptr<Failure> peek(uint64_t position);
  // Reports that failure through the host. TB_OK when there is none.
  tb_status report(uint64_t position, const tb_host *host, QueueTails &queues);
  // Takes all failures as reported, without a report.
  void forget(QueueTails &queues);
  // On the thread that runs the stream's work, in its order: whether the piece that ends at `end` of `queue`, the stream's
  // own, must not be run.
  bool leaves_out(uint64_t queue, uint64_t end) {
    if (!maybe()) [[likely]]
      return false;
    return look(queue, end);
  }
  // Whether a failure may be unreported, or leave out more work. Takes no lock; exact for failures before a position that
  // is known to be done.
  bool maybe() const noexcept { return active_.load(std::memory_order_acquire); }

private:
  struct Mark {
    std::shared_ptr<Failure> failure;
    uint64_t position;
  };
  // Reported failures are kept for waits of other streams that were queued before the report and have not run yet.
  static constexpr size_t most_reported = 64;

  std::shared_ptr<Failure> take(uint64_t position, QueueTails &queues);
  bool look(uint64_t queue, uint64_t end);
  void add(std::shared_ptr<Failure> failure, uint64_t position); // with the lock held

  std::atomic<bool> active_{false};
  std::mutex mutex_;
  std::vector<Mark> marks_; // in the order of the stream
};

} // namespace tb::drivers
