// Keeps the warnings of kernels.
#include "runtime/late_warnings.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

namespace tb::ops {
namespace {

// A loop that warns for ever between two waits must not fill memory: so many different warnings, of so many bytes.
constexpr size_t most_warnings = 1000, most_bytes = size_t{1} << 20;

class Kept {
public:
  void add(LateWarning warning) {
    const size_t hash = hash_of(warning);
    const auto [begin, end] = places_.equal_range(hash);
    for (auto found = begin; found != end; ++found)
      if (LateWarning &known = all_.warnings[found->second]; same(known, warning)) {
        known.times += warning.times;
        return;
      }
    if (all_.warnings.size() == most_warnings || bytes_ + warning.text.size() > most_bytes) {
      all_.dropped += warning.times;
      return;
    }
    bytes_ += warning.text.size();
    places_.emplace(hash, all_.warnings.size());
    all_.warnings.push_back(std::move(warning));
  }
  LateWarnings take() {
    places_.clear();
    bytes_ = 0;
    return std::exchange(all_, {});
  }
  void add_dropped(uint64_t count) { all_.dropped += count; }

private:
  static bool same(const LateWarning &a, const LateWarning &b) {
    const auto same_frame = [](const PythonCallSite::Frame &x, const PythonCallSite::Frame &y) {
      return x.code == y.code && x.instruction == y.instruction;
    };
    return a.deprecation == b.deprecation && a.text == b.text &&
           std::equal(a.site.frames.begin(), a.site.frames.end(), b.site.frames.begin(), same_frame);
  }
  static size_t hash_of(const LateWarning &warning) {
    return std::hash<std::string_view>()(warning.text) * 31 + warning.site.frames[0].instruction;
  }

  LateWarnings all_;
  size_t bytes_ = 0;
  std::unordered_multimap<size_t, size_t> places_; // of a hash
};

std::mutex mutex; // short sections, without Python's lock
std::atomic<bool> some{false}, ended{false};
Kept &kept() {
  static auto *made = new Kept; // queued work may end after the static destructors
  return *made;
}

void keep(LateWarning warning) {
  const std::lock_guard guard(mutex);
  kept().add(std::move(warning));
  some.store(true, std::memory_order_relaxed);
}

// The words of PyTorch's own handler for Python, so that filters meet the same texts.
std::string text_of(const c10::Warning &warning) {
  const c10::SourceLocation &where = warning.source_location();
  if (!where.file || warning.verbatim()) return warning.msg();
  return c10::str(warning.msg(), " (Triggered internally at ", where.file, ":", where.line, ".)");
}

thread_local const PythonCallSite *launching = nullptr; // whose closure this thread runs

class Handler final : public c10::WarningHandler {
public:
  void process(const c10::Warning &warning) override {
    if (!launching || ended.load(std::memory_order_relaxed)) return c10::WarningHandler::process(warning);
    keep({text_of(warning), std::holds_alternative<c10::DeprecationWarning>(warning.type()), *launching});
  }
};

Handler *handler() {
  static auto *made = new Handler; // for every thread that runs closures, to its end
  return made;
}

} // namespace

WarningScope::WarningScope(const PythonCallSite &site) : guard_(handler()) { launching = &site; }

WarningScope::~WarningScope() { launching = nullptr; }

bool warnings_wait() noexcept { return some.load(std::memory_order_relaxed); }

LateWarnings take_warnings() {
  const std::lock_guard guard(mutex);
  some.store(false, std::memory_order_relaxed);
  return kept().take();
}

void keep_warnings(std::vector<LateWarning> warnings) {
  const std::lock_guard guard(mutex);
  LateWarnings newer = kept().take();
  for (LateWarning &warning : warnings) kept().add(std::move(warning));
  for (LateWarning &warning : newer.warnings) kept().add(std::move(warning));
  kept().add_dropped(newer.dropped);
  some.store(true, std::memory_order_relaxed);
}

void keep_no_warnings() noexcept { ended.store(true); }

} // namespace tb::ops
