// gil.h -- Python's lock given up around calls that may block.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace tb {

// As nb::gil_scoped_release, but safe in a daemon thread while the process ends: up to Python 3.13 taking the lock back
// then ends the thread by unwinding, which must not leave a destructor (std::terminate). Such a thread stops here for
// ever instead, as Python 3.14 lets it.
class Unlocked {
public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind &) {
      for (;;) pause();
    }
  }
  Unlocked(const Unlocked &) = delete;

private:
  PyThreadState *state_;
};

} // namespace tb
