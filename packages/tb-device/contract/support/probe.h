// What the cases share: the table under a short name, words on the device, and waits that cannot hang.
//
// A case holds at most one Gate closed at a time, and queues no host function on other streams meanwhile: many devices
// run the host functions of all streams on one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <source_location>
#include <thread>
#include <vector>

#include "contract/kit.h"

namespace tb::contract {

// auto [api, self] = driver_of(kit);
struct Driver {
  const tb_driver_api &api;
  tb_driver *self;
};
inline Driver driver_of(const Kit &kit) { return {kit.api(), kit.self()}; }

// ---- Words of device memory. The first two queue, the others wait for the default stream. ----

void set_word(Kit &kit, tb_stream *stream, void *dst, uint32_t value, int32_t device = 0);
void copy_word(Kit &kit, tb_stream *stream, void *dst, const void *src, int32_t device = 0);
uint32_t read_word(Kit &kit, const void *src, int32_t device = 0);
std::vector<uint32_t> read_words(Kit &kit, const void *src, size_t count, int32_t device = 0);
void write_words(Kit &kit, void *dst, const std::vector<uint32_t> &words, int32_t device = 0);

// ---- Waiting ----

// Opens a gate from another thread after a while. With a short while it shows that a call waits: opened() must hold
// when the call returns. With a long one that a call does not wait: opened() must not hold yet, and a driver that
// breaks the promise returns late instead of hanging the case.
class OpensLater {
public:
  OpensLater(Gate &gate, double seconds);
  ~OpensLater(); // opens no more
  OpensLater(const OpensLater &) = delete;
  OpensLater &operator=(const OpensLater &) = delete;
  bool opened() const { return opened_; }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::atomic<bool> opened_{false};
  std::thread thread_;
};
constexpr double soon = 0.03, too_late = 3;

// The stream has work that cannot end yet. Looks for a while: a driver that runs it early is seen, an honest one never.
void check_held(Kit &kit, tb_stream *stream, std::source_location where = std::source_location::current());

// Waits until a condition of another thread holds; fails the case after ten seconds.
template <class Condition>
void wait_until(Condition &&condition, const char *what, std::source_location where = std::source_location::current()) {
  const double deadline = seconds_now() + 10;
  while (!condition()) {
    if (seconds_now() > deadline)
      fail_check(where.file_name(), static_cast<int>(where.line()), std::string("waited 10 s for ") + what);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  count_check();
}

// Asks a query until it says something else than TB_NOT_READY; fails the case after ten seconds.
template <class Query> tb_status poll(Query &&query, std::source_location where = std::source_location::current()) {
  tb_status status = TB_NOT_READY;
  wait_until([&] { return (status = query()) != TB_NOT_READY; }, "a query to say something else than not ready", where);
  return status;
}

// In a second process: what comes may end it, without a report and a core file.
void expect_a_crash();

} // namespace tb::contract
