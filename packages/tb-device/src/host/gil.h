// Python's lock given up around calls that may block.
//
// Queued work may need the lock, for a Python function in stream order or for the last reference to an object. A thread
// that waits for such work with the lock held would wait for ever.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <atomic>

namespace tb::device {

// The threads that gave the lock up for a call which has not returned yet.
inline std::atomic<int> threads_without_lock{0};

// As nb::gil_scoped_release, but safe in a daemon thread while the process ends: up to Python 3.13 taking the lock back
// then ends the thread by unwinding, which must not leave a destructor (std::terminate). Such a thread stops here for
// ever instead, as Python 3.14 lets it.
class Unlocked {
public:
  Unlocked() : state_(give_up()) {}
  ~Unlocked() { take_back(state_); }
  static PyThreadState *give_up() noexcept {
    threads_without_lock.fetch_add(1); // before the call reads the driver's table
    return PyEval_SaveThread();
  }
  static void take_back(PyThreadState *state) noexcept {
    threads_without_lock.fetch_sub(1);
    try {
      PyEval_RestoreThread(state);
    } catch (abi::__forced_unwind &) {
      for (;;) pause();
    }
  }
  Unlocked(const Unlocked &) = delete;

private:
  PyThreadState *state_;
};

// Whether this thread holds the lock. For any thread, with or without Python, also when Python is not running.
bool is_lock_held() noexcept;
// Before a wait: gives the lock up if this thread holds it, and returns what after_wait takes back, else NULL.
void *before_wait() noexcept;
void after_wait(void *given_up) noexcept;

class UnlockedIfHeld {
public:
  UnlockedIfHeld() noexcept : given_up_(before_wait()) {}
  ~UnlockedIfHeld() {
    if (given_up_) after_wait(given_up_);
  }
  UnlockedIfHeld(const UnlockedIfHeld &) = delete;

private:
  void *given_up_;
};

} // namespace tb::device
