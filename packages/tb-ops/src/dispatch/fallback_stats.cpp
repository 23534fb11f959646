// Keeps the entries and the budgets, and refuses calls.
#include "dispatch/fallback_stats.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "runtime/format.h"

namespace tb::ops {
namespace {

using Clock = std::chrono::steady_clock;

struct Budget {
  uint64_t number, allowed, used = 0;
  std::string refusal;
};

std::mutex lock; // guards all below except `mode`
std::unordered_map<std::string, FallbackEntry> entries;
std::unordered_map<std::string, bool> warned;
std::vector<Budget> budgets; // in the order of opening
uint64_t budgets_opened = 0;
Clock::time_point since = Clock::now();

std::string hint; // does not change after the first call
std::atomic<FallbackMode> mode{FallbackMode::warn};
std::atomic<int64_t (*)()> module_counter{nullptr};

int64_t count_modules() {
  int64_t (*count)() = module_counter;
  return count ? count() : 0;
}

std::string described(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  const std::string where = find_origin().where;
  return "Called with " + describe_arguments(op.schema(), arguments) + (where.empty() ? "" : " at " + where) + ". ";
}

// Counts the call in every open budget. Throws if a budget is used up; the innermost such budget keeps the text.
void spend(const std::string &name, const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  uint64_t number = 0, allowed = 0;
  {
    const std::lock_guard guard(lock);
    const auto spent = [](const Budget &budget) { return budget.used >= budget.allowed; };
    const auto found = std::find_if(budgets.rbegin(), budgets.rend(), spent);
    if (found == budgets.rend()) {
      for (Budget &budget : budgets) budget.used++;
      return;
    }
    number = found->number;
    allowed = found->allowed;
  }
  const std::string refusal = name + " would run on the CPU, and fallback_budget(" + std::to_string(allowed) +
                              ") allows no more of that. " + described(op, arguments) +
                              "Give the device a kernel for it (torch.tb.fallback_report() ranks what is missing), "
                              "move its inputs to the CPU, or raise the budget.";
  {
    const std::lock_guard guard(lock);
    for (Budget &budget : budgets)
      if (budget.number == number && budget.refusal.empty()) budget.refusal = refusal;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, refusal);
}

void apply_mode(const std::string &name, const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments) {
  if (mode == FallbackMode::error)
    TORCH_CHECK_NOT_IMPLEMENTED(false, name,
                                " has no kernel on this tb device and the CPU fallback is forbidden "
                                "(TB_FALLBACK=error). ",
                                described(op, arguments),
                                "Move its inputs to the CPU, or allow it: torch.tb.set_fallback_mode('warn'). ", hint);
  if (mode != FallbackMode::warn) return;
  bool first = false;
  {
    const std::lock_guard guard(lock);
    first = warned.empty();
    if (!warned.emplace(name, true).second) return;
  }
  TORCH_WARN(name,
             " has no kernel on this tb device and runs on the CPU, waiting for the device first. Counted in "
             "torch.tb.fallbacks(); TB_FALLBACK=allow silences this, TB_FALLBACK=error forbids it.",
             first && !hint.empty() ? " Of this device: " + hint : "");
}

// Makes the operator's entry with the place of this call. Only the first place is kept, since finding one is expensive.
// Returns whether this is the operator's first call.
bool open_entry(const std::string &name) {
  {
    const std::lock_guard guard(lock);
    const auto [entry, is_new] = entries.try_emplace(name);
    if (!is_new) return false;
    entry->second.name = name;
  }
  Origin first = find_origin(); // takes Python's lock, so not under ours
  const std::lock_guard guard(lock);
  entries[name].first = std::move(first);
  return true;
}

} // namespace

void set_module_counter(int64_t (*count)()) { module_counter = count; }
void set_fallback_hint(std::string given) { hint = std::move(given); }
void set_fallback_mode(FallbackMode wanted) { mode = wanted; }
FallbackMode fallback_mode() { return mode; }

std::vector<FallbackEntry> fallbacks() {
  std::vector<FallbackEntry> out;
  {
    const std::lock_guard guard(lock);
    for (const auto &[name, entry] : entries)
      if (entry.calls > 0) out.push_back(entry); // the first call may still be running
  }
  std::sort(out.begin(), out.end(), [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  return out;
}

double fallback_seconds() {
  const std::lock_guard guard(lock);
  return std::chrono::duration<double>(Clock::now() - since).count();
}

void reset_fallbacks() {
  const std::lock_guard guard(lock);
  entries.clear();
  since = Clock::now();
}

uint64_t open_budget(uint64_t calls) {
  const std::lock_guard guard(lock);
  budgets.push_back({.number = ++budgets_opened, .allowed = calls, .refusal = {}});
  return budgets_opened;
}

std::string close_budget(uint64_t number) {
  const std::lock_guard guard(lock);
  const auto found = std::find_if(budgets.begin(), budgets.end(), [&](const Budget &b) { return b.number == number; });
  if (found == budgets.end()) return {};
  std::string refusal = std::move(found->refusal);
  budgets.erase(found);
  return refusal;
}

FallbackCall::FallbackCall(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments, bool forced)
    : name_(name_of(op)), forced_(forced) {
  spend(name_, op, arguments);
  if (!forced) apply_mode(name_, op, arguments);
  first_ = open_entry(name_);
  if (first_) modules_ = count_modules();
  count_bytes(arguments);
  start_ = Clock::now();
}

FallbackCall::~FallbackCall() {
  const std::chrono::duration<double> took = Clock::now() - start_;
  const bool loaded = first_ && count_modules() > modules_; // takes Python's lock, so not under ours
  const std::lock_guard guard(lock);
  FallbackEntry &entry = entries[name_];
  entry.name = name_; // reset_fallbacks() may have removed the entry meanwhile
  entry.calls++;
  entry.forced += forced_;
  entry.bytes += bytes_;
  (loaded ? entry.loading : entry.seconds) += took.count();
}

void FallbackCall::count_bytes(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue &value : values) {
    if (value.isTensor()) {
      count_bytes(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector()) count_bytes(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
        if (tensor) count_bytes(*tensor);
    }
  }
}

void FallbackCall::count_bytes(const at::Tensor &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined() || tensor.layout() != c10::kStrided) return;
  if (std::find(counted_.begin(), counted_.end(), impl) != counted_.end()) return; // returned by in-place operators
  counted_.push_back(impl);
  bytes_ += tensor.nbytes();
}

} // namespace tb::ops
