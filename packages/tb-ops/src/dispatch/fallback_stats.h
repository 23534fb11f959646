// Statistics of operators that run on the CPU: their cost, the place of their first call, and how many calls are
// allowed. The process has one set, since autograd calls operators on threads of its own. Any thread may call these
// functions.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "runtime/call_site.h"

namespace tb::ops {

// What a call of an operator without a kernel does: run silently, warn once per operator, or throw.
enum class FallbackMode { allow, warn, error };
inline constexpr std::string_view fallback_mode_names[] = {"allow", "warn", "error"};
void set_fallback_mode(FallbackMode mode);
FallbackMode fallback_mode();

struct FallbackEntry {
  std::string name; // with the overload: "aten::std.correction"
  uint64_t calls = 0;
  uint64_t forced = 0; // calls that force_fallback() asked for
  uint64_t bytes = 0;  // of the tensors given and returned
  double seconds = 0;  // wall time, with the waits for the stream
  double loading = 0;  // wall time of a first call that imported Python modules, which is not in `seconds`
  Origin first;
};
std::vector<FallbackEntry> fallbacks(); // most time first
double fallback_seconds();              // since the start or the last reset
void reset_fallbacks();

// Why this device has few kernels of its own, and what to do; the first warning and every refusal end with it. Set once,
// before the first call.
void set_fallback_hint(std::string hint);

// `count` returns how many Python modules are imported. It is called from any thread, without locks of tb-ops.
void set_module_counter(int64_t (*count)());

// A budget counts every fallback of the process from opening to closing, and refuses those beyond `calls`.
uint64_t open_budget(uint64_t calls);
// Returns the text of the budget's first refusal, even if the program swallowed its exception; empty if there was none.
std::string close_budget(uint64_t number);

// Counts one call, from construction to destruction, also if it throws. The constructor throws c10::NotImplementedError
// if the mode or a budget forbids the call.
class FallbackCall {
public:
  FallbackCall(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments, bool forced);
  ~FallbackCall();
  FallbackCall(const FallbackCall &) = delete;
  FallbackCall &operator=(const FallbackCall &) = delete;

  const std::string &name() const { return name_; }
  void returned(c10::ArrayRef<c10::IValue> results) { count_bytes(results); }

private:
  void count_bytes(c10::ArrayRef<c10::IValue> values);
  void count_bytes(const at::Tensor &tensor);

  std::string name_;
  bool forced_, first_;
  int64_t modules_ = 0; // imported before a first call
  uint64_t bytes_ = 0;
  c10::SmallVector<const c10::TensorImpl *, 8> counted_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace tb::ops
