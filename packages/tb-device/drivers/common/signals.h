// Threads of the driver are never picked for the process's signals.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tb::cpu {

// While it lives, threads that this one starts begin with every signal blocked: Python's handlers expect the main
// thread.
class SignalsBlocked {
public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
  sigset_t before_;
};

} // namespace tb::cpu
