// entry.h -- what every exported function does before its own work: it counts the call, injects a fault, and checks the
// thread's state.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "acl.h"

namespace sim {

enum class Needs {
  nothing, // also works before aclInit
  init,
  device,  // this thread must have a current device
  release, // as `device`, but an injected fault follows the work
  end,     // as `nothing`, but an injected fault follows the work
};

#pragma GCC visibility push(default) // for the library of operators, whose functions use this too

class Counter {
public:
  explicit Counter(const char *name);
  const char *const name;
  std::atomic<uint64_t> calls{0};
  Counter *const next;
};

// A kind of object that tb_simnpu_live reports.
class Live {
public:
  explicit Live(const char *kind);
  const char *const kind;
  std::atomic<uint64_t> count{0};
  Live *const next;
};
Live *live_kinds();

// Returns kOk, or the error with which the call must fail. `late` gets a fault that must follow the work.
Error enter(Counter &counter, Needs needs, Error *late);
// Called after the work. Runs the function that tb_simnpu_after set.
void leave(Counter &counter);
// Keeps the text for aclGetRecentErrMsg on this thread, and returns the code.
[[gnu::format(printf, 2, 3)]] Error fail(Error code, const char *format, ...);
void note_misuse(const char *text);
bool hidden(const char *function);
// True on a thread that runs a host function, which must not call the library.
extern thread_local bool in_host_function;

#pragma GCC visibility pop

template <size_t N> struct Text {
  char characters[N];
  constexpr Text(const char (&text)[N]) {
    for (size_t i = 0; i < N; ++i) characters[i] = text[i];
  }
};

template <Text name, Needs needs, auto work> struct Entry;

template <Text name, Needs needs, class... A, Error (*work)(A...)> struct Entry<name, needs, work> {
  static inline Counter counter{name.characters};
  static Error call(A... arguments) {
    Error late = kOk;
    if (const Error error = enter(counter, needs, &late)) return error;
    const Error error = work(arguments...);
    leave(counter);
    return error ? error : late;
  }
};

// For a function that returns a new object, or NULL if it fails.
template <Text name, Needs needs, class R, class... A, R *(*work)(A...)>
  requires(!std::is_const_v<R>)
struct Entry<name, needs, work> {
  static inline Counter counter{name.characters};
  static R *call(A... arguments) {
    Error late = kOk;
    return enter(counter, needs, &late) ? nullptr : work(arguments...);
  }
};

// For a function that returns a text.
template <Text name, Needs needs, const char *(*work)()> struct Entry<name, needs, work> {
  static inline Counter counter{name.characters};
  static const char *call() {
    ++counter.calls;
    return work();
  }
};

} // namespace sim
