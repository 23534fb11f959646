// The smallest test frame: CASE(name) { CHECK(...); }, and a main that runs them all.
//
// A case ends at its first failed check. A case that checks nothing fails. Arguments of the program choose cases by
// a part of their name. A program with TB_TEST_OWN_MAIN calls check::main itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace check {

struct Case {
  const char *name;
  void (*run)();
};
inline std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}
struct Registration {
  Registration(const char *name, void (*run)()) { cases().push_back({name, run}); }
};
inline std::atomic<int> &count() {
  static std::atomic<int> value{0};
  return value;
}

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void that(bool holds, const char *text, const char *file, int line) {
  count().fetch_add(1, std::memory_order_relaxed);
  if (!holds) throw Failed(std::string(file) + ":" + std::to_string(line) + ": not true: " + text);
}

template <class Left, class Right>
void equal(const Left &left, const Right &right, const char *text, const char *file, int line) {
  count().fetch_add(1, std::memory_order_relaxed);
  if (left == right) return;
  throw Failed(std::string(file) + ":" + std::to_string(line) + ": " + text + " are " + std::to_string(left) + " and " +
               std::to_string(right));
}

inline int main(int argument_count, char **arguments) {
  int failed = 0, run = 0;
  for (const Case &one : cases()) {
    bool chosen = argument_count == 1;
    for (int place = 1; place < argument_count; ++place) chosen |= std::strstr(one.name, arguments[place]) != nullptr;
    if (!chosen) continue;
    ++run;
    count() = 0;
    const auto start = std::chrono::steady_clock::now();
    std::string error;
    try {
      one.run();
      if (count() == 0) error = "the case checks nothing";
    } catch (const std::exception &exception) {
      error = exception.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s %s (%d checks, %.3f s)%s%s\n", error.empty() ? "ok    " : "FAILED", one.name, count().load(),
                seconds, error.empty() ? "" : "\n       ", error.c_str());
    std::fflush(stdout);
    failed += !error.empty();
  }
  std::printf("%d cases, %d failed\n", run, failed);
  return failed || !run;
}

} // namespace check

#define CASE(name)                                                                                                     \
  static void name();                                                                                                  \
  static const check::Registration registration_of_##name(#name, name);                                                \
  static void name()
#define CHECK(condition) check::that((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQUAL(left, right) check::equal((left), (right), #left " and " #right, __FILE__, __LINE__)

#ifndef TB_TEST_OWN_MAIN
int main(int argument_count, char **arguments) { return check::main(argument_count, arguments); }
#endif
