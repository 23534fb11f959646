// A case of the contract kit: one promise of the ABI, as a function that checks it.
//
//   TB_CASE(STR, 04, TB_GROUP_ASYNC, "stream_create.2", "work within a stream runs in order") {
//     kit::Stream stream(kit);
//     ...
//     CHECK_EQUAL(got, want);
//   }
//
// The area and number make the id, "STR-04". The third argument holds the groups without which the case cannot run: it
// is then "not offered". The fourth names the rules that it proves. Further traits follow as `.seconds = 60`.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tb/driver.h"

namespace tb::contract {

class Kit;

struct Traits {
  int level = -1;           // -1: from the groups (level_of)
  double seconds = 20;      // the time limit
  bool own_process = false; // may crash, hang or lose the device: a process for itself
  bool warn = false;        // a performance floor: a failure is a warning by default
  bool slow = false;        // only with --slow
};

struct Case {
  const char *area;
  const char *number;
  uint64_t groups;
  const char *rules; // ids apart by spaces
  const char *title;
  void (*run)(Kit &);
  Traits traits;
  const char *file;
  int line;

  std::string id() const { return std::string(area) + "-" + number; }
  int level() const;
};

// In the order of areas and numbers.
const std::vector<Case> &all_cases();
const Case *find_case(const std::string &id);

// 0 CORE; 1 ASYNC; 2 memory kinds, peers, host calls, closures, timing; 3 MODULE; 4 IPC and tb.graph.
int level_of(uint64_t groups);

struct Registration {
  explicit Registration(const Case &one);
};

// The promise does not hold. The text says what was found.
struct Failed : std::runtime_error {
  explicit Failed(const std::string &text, const char *file = "", int line = 0)
      : std::runtime_error(text), file(file), line(line) {}
  const char *file;
  int line;
};
// The driver does not offer what the case is about, where the groups do not say so (one device only, no tb.graph).
struct NotOffered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail_check(const char *file, int line, const std::string &text);
// Out of line, as a thousand checks would have them otherwise.
[[noreturn]] void fail_condition(const char *file, int line, const char *text);
[[noreturn]] void fail_equal(const char *file, int line, const char *text, const std::string &left,
                             const std::string &right);
void count_check();     // a case that checks nothing fails
uint64_t take_checks(); // made since the last call, by all threads

// What a check prints of a value.
std::string shown(const std::string &value);
std::string shown(const void *value);
template <class T> std::string shown(const T &value)
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
{
  if constexpr (std::is_enum_v<T>)
    return std::to_string(static_cast<long long>(value));
  else
    return std::to_string(value);
}
inline std::string shown(const char *value) { return value ? shown(std::string(value)) : "NULL"; }

template <class Left, class Right>
void check_equal(const Left &left, const Right &right, const char *text, const char *file, int line) {
  count_check();
  if (!(left == right)) fail_equal(file, line, text, shown(left), shown(right));
}

} // namespace tb::contract

#define TB_CASE(area, number, groups, rules, title, ...)                                                               \
  static void tb_case_##area##_##number(::tb::contract::Kit &kit);                                                     \
  static const ::tb::contract::Registration tb_registration_##area##_##number(                                         \
      {#area, #number, groups, rules, title, tb_case_##area##_##number, ::tb::contract::Traits{__VA_ARGS__}, __FILE__, \
       __LINE__});                                                                                                     \
  static void tb_case_##area##_##number([[maybe_unused]] ::tb::contract::Kit &kit)

#define CHECK(condition)                                                                                               \
  (::tb::contract::count_check(),                                                                                      \
   (condition) ? void() : ::tb::contract::fail_condition(__FILE__, __LINE__, "not true: " #condition))
#define CHECK_EQUAL(left, right) ::tb::contract::check_equal((left), (right), #left " and " #right, __FILE__, __LINE__)
// The call must give TB_OK; its text is shown otherwise.
#define CHECK_OK(call) kit.check_status((call), TB_OK, #call, __FILE__, __LINE__)
// The call must give this status, and, as rule E2 asks, a text.
#define CHECK_STATUS(call, status) kit.check_status((call), (status), #call, __FILE__, __LINE__)
