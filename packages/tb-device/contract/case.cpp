// The registry of cases, and what their checks report.
#include "contract/case.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <tuple>

namespace tb::contract {
namespace {

// From what a driver needs first to what it needs last; an area that is not here comes after them.
constexpr const char *area_order[] = {"ABI", "DEV", "MEM", "CPY", "ERR", "LEK", "PRC", "STR", "EVT",
                                      "CON", "PIN", "PTR", "SOA", "C2D", "HST", "CLO", "VMM", "PEE",
                                      "TIM", "NAT", "MIS", "FLT", "PRF", "MOD", "KRN", "IPC", "GRA"};

// Filled while the program starts, in an order that the linker chooses.
std::vector<Case> &registry() {
  static std::vector<Case> cases;
  return cases;
}

std::atomic<uint64_t> checks{0};

auto place(const Case &one) {
  const auto found = std::find(std::begin(area_order), std::end(area_order), std::string_view(one.area));
  return std::tuple(found - std::begin(area_order), std::string_view(one.area), std::string_view(one.number));
}

} // namespace

int Case::level() const { return traits.level >= 0 ? traits.level : level_of(groups); }

int level_of(uint64_t groups) {
  if (groups & TB_GROUP_IPC) return 4;
  if (groups & TB_GROUP_MODULE) return 3;
  if (groups & ~static_cast<uint64_t>(TB_GROUP_CORE | TB_GROUP_ASYNC)) return 2;
  return (groups & TB_GROUP_ASYNC) ? 1 : 0;
}

Registration::Registration(const Case &one) { registry().push_back(one); }

const std::vector<Case> &all_cases() {
  static const std::vector<Case> &sorted = [&]() -> std::vector<Case> & {
    std::vector<Case> &cases = registry();
    std::sort(cases.begin(), cases.end(), [](const Case &a, const Case &b) { return place(a) < place(b); });
    return cases;
  }();
  return sorted;
}

const Case *find_case(const std::string &id) {
  for (const Case &one : all_cases())
    if (one.id() == id) return &one;
  return nullptr;
}

void fail_check(const char *file, int line, const std::string &text) { throw Failed(text, file, line); }
void fail_condition(const char *file, int line, const char *text) { throw Failed(text, file, line); }
void fail_equal(const char *file, int line, const char *text, const std::string &left, const std::string &right) {
  throw Failed(std::string(text) + ": " + left + " and " + right, file, line);
}
void count_check() { checks.fetch_add(1, std::memory_order_relaxed); }
uint64_t take_checks() { return checks.exchange(0, std::memory_order_relaxed); }

std::string shown(const std::string &value) { return '"' + value + '"'; }

std::string shown(const void *value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<uintptr_t>(value));
  return text;
}

} // namespace tb::contract
