// The ledger of operators that run on the CPU: what they cost, where they were called first, how many are allowed.
// One for the process, since autograd calls operators on threads of its own. Safe from any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace tb {

enum class FallbackMode { allow, warn, error };
void set_fallback_mode(FallbackMode mode);
FallbackMode fallback_mode();

// Where Python was: the line of the user's code ("" when unknown), and the whole stack, innermost frame first.
struct Origin {
  std::string where;
  std::vector<std::string> stack;
};
// Called at an operator's first fallback and for errors, from any thread, without locks of ours.
void set_origin_finder(Origin (*find)());
Origin find_origin();

struct FallbackEntry {
  std::string name; // with the overload: "aten::std.correction"
  uint64_t calls = 0;
  uint64_t forced = 0; // of these calls, those of force_fallback
  uint64_t bytes = 0;  // of the tensors given and returned
  double seconds = 0;  // wall time, waiting for the stream included
  Origin first;
};
std::vector<FallbackEntry> fallbacks(); // most time first
double ledger_seconds();                // since the start or the last reset
void reset_fallbacks();

// A budget counts every fallback of the process from opening to closing, and refuses those beyond `calls`.
uint64_t open_budget(uint64_t calls);
// The text of the first refusal, also when somebody swallowed it; empty: the budget was kept.
std::string close_budget(uint64_t number);

// One call, counted from construction to destruction, also when it throws. The constructor throws
// c10::NotImplementedError when the mode or a budget forbids the call.
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
  bool forced_;
  uint64_t bytes_ = 0;
  c10::SmallVector<const c10::TensorImpl *, 8> counted_;
  std::chrono::steady_clock::time_point start_;
};

} // namespace tb
