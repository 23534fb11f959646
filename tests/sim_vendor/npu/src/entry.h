// entry.h -- what every exported function does before its own work: count, fail on request, check the thread's state.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "acl.h"

namespace sim {

enum class Needs {
  nothing, // works before aclInit
  init,
  device,  // this thread has a current one
  release, // as device; an injected fault comes after the work
  end,     // as nothing; the same
};

#pragma GCC visibility push(default) // for the library of operators, whose functions are entered as these

class Counter {
public:
  explicit Counter(const char *name);
  const char *const name;
  std::atomic<uint64_t> calls{0};
  Counter *const next;
};

// A kind of object that tb_simnpu_live tells.
class Live {
public:
  explicit Live(const char *kind);
  const char *const kind;
  std::atomic<uint64_t> count{0};
  Live *const next;
};
Live *live_kinds();

// kOk, or why the call must not go on. `late` is a fault that comes after the work.
Error enter(Counter &counter, Needs needs, Error *late);
// After the work: runs what tb_simnpu_after asked for.
void leave(Counter &counter);
// Keeps the text that aclGetRecentErrMsg gives on this thread, and returns the code.
[[gnu::format(printf, 2, 3)]] Error fail(Error code, const char *format, ...);
void note_misuse(const char *text);
bool hidden(const char *function);
// On the thread of a host function, where no function of the library may be called.
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

// A function that makes an object; NULL is its failure.
template <Text name, Needs needs, class R, class... A, R *(*work)(A...)>
  requires(!std::is_const_v<R>)
struct Entry<name, needs, work> {
  static inline Counter counter{name.characters};
  static R *call(A... arguments) {
    Error late = kOk;
    return enter(counter, needs, &late) ? nullptr : work(arguments...);
  }
};

// One that gives a text.
template <Text name, Needs needs, const char *(*work)()> struct Entry<name, needs, work> {
  static inline Counter counter{name.characters};
  static const char *call() {
    ++counter.calls;
    return work();
  }
};

} // namespace sim
