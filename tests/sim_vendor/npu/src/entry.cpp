// entry.cpp -- the counters, injected faults and checks that all functions share.
#include "entry.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "../sim_npu.h"
#include "machine.h"

namespace sim {
namespace {

Counter *counters = nullptr; // a list that static constructors of the libraries fill
Live *kinds = nullptr;

struct Fault {
  std::string function; // "" for any function
  int64_t left = -1;    // the number of calls before the fault; below 0 there is no fault
  Error code = kOk;
  bool persistent = false;
};
std::mutex fault_mutex;
Fault fault, task_fault;
uint64_t fired = 0;
std::string misuse, fired_last;

struct After {
  std::string function;
  void (*call)(void *) = nullptr;
  void *user = nullptr;
};
std::mutex after_mutex;
After after;
std::atomic<bool> after_asked{false};

// Reads TB_SIMNPU_FAULT, "function:nth:code".
Fault read_fault() {
  const char *text = std::getenv("TB_SIMNPU_FAULT");
  char function[128];
  long nth = 0;
  int code = 0;
  if (!text || std::sscanf(text, "%127[^:]:%ld:%d", function, &nth, &code) != 3) return {};
  return {function, nth, code, false};
}
const bool fault_read = [] { return fault = read_fault(), true; }();

// The code of the fault if it is due at this call, else kOk.
Error due(Fault &one, const char *function) {
  std::lock_guard lock(fault_mutex);
  if (one.left < 0 || (!one.function.empty() && one.function != function)) return kOk;
  if (one.left > 0) return --one.left, kOk;
  ++fired;
  fired_last = function;
  if (!one.persistent) one.left = -1;
  return one.code;
}

thread_local std::string recent; // the text of the last failure
thread_local std::string given;  // the last result of aclGetRecentErrMsg, valid until its next call

} // namespace

thread_local bool in_host_function = false;

Counter::Counter(const char *name) : name(name), next(counters) { counters = this; }
Live::Live(const char *kind) : kind(kind), next(kinds) { kinds = this; }
Live *live_kinds() { return kinds; }

Error fail(Error code, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  recent = text;
  return code;
}

void note_misuse(const char *text) {
  std::lock_guard lock(fault_mutex);
  if (misuse.empty()) misuse = text;
}

bool hidden(const char *function) {
  const char *list = std::getenv("TB_SIMNPU_HIDE");
  std::string_view rest = list ? list : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == function) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

Error enter(Counter &counter, Needs needs, Error *late) {
  ++counter.calls;
  if (in_host_function) {
    note_misuse((std::string(counter.name) + " was called out of a host function").c_str());
    return fail(kInternal, "EE9999: %s out of a host function would wait for itself", counter.name);
  }
  if (Machine::stub()) return fail(kCompileStub, "%s of the library that programs are built with", counter.name);
  if (const Error error = due(fault, counter.name)) {
    fail(error, "EE1001: injected fault of %s", counter.name);
    if (needs != Needs::release && needs != Needs::end) return error;
    *late = error;
  }
  if (needs == Needs::nothing || needs == Needs::end) return kOk;
  Machine &machine = Machine::get();
  if (!machine.initialized()) return fail(kUninitialized, "EE1002: %s before aclInit", counter.name);
  if (needs == Needs::init || machine.current()) return kOk;
  return fail(kNoContext, "EE1003: %s on a thread without aclrtSetDevice", counter.name);
}

void leave(Counter &counter) {
  if (!after_asked) return;
  After due;
  {
    std::lock_guard lock(after_mutex);
    if (after.function != counter.name) return;
    due = std::exchange(after, {});
    after_asked = false;
  }
  if (due.call) due.call(due.user);
}

Error task_fault_due() { return due(task_fault, "a task"); }

const char *aclGetRecentErrMsg() {
  if (recent.empty()) return nullptr;
  given.swap(recent);
  recent.clear();
  return given.c_str();
}

} // namespace sim

using namespace sim;

uint64_t tb_simnpu_calls(const char *function) {
  uint64_t calls = 0;
  for (Counter *each = counters; each; each = each->next)
    if (!function || std::strcmp(each->name, function) == 0) calls += each->calls;
  return calls;
}

void tb_simnpu_fault(const char *function, int64_t nth, int32_t code, int32_t persistent) {
  std::lock_guard lock(fault_mutex);
  fault = {function ? function : "", nth, code, persistent != 0};
  fired = 0;
  fired_last.clear();
}

void tb_simnpu_fail_task(int64_t nth, int32_t code) {
  std::lock_guard lock(fault_mutex);
  task_fault = {"", nth, code, false};
  fired = 0;
  fired_last.clear();
}

void tb_simnpu_after(const char *function, void (*call)(void *user), void *user) {
  std::lock_guard lock(after_mutex);
  after = {function, call, user};
  after_asked = true;
}

uint64_t tb_simnpu_fired(const char **function) {
  static thread_local std::string copy;
  std::lock_guard lock(fault_mutex);
  copy = fired_last;
  if (function) *function = copy.c_str();
  return fired;
}

const char *tb_simnpu_misuse() {
  static thread_local std::string copy;
  std::lock_guard lock(fault_mutex);
  copy = misuse;
  return copy.c_str();
}
