// Threads of a driver are never picked for the process's signals.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace tb::drivers {

// While it lives, threads that this one starts begin with every signal blocked except for `kept`: Python's handlers
// expect the main thread.
class SignalsBlocked {
public:
  explicit SignalsBlocked(std::initializer_list<int> kept = {}) noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int signal : kept) sigdelset(&blocked, signal);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
  sigset_t before_;
};

} // namespace tb::drivers
