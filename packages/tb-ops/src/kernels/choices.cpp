// The sizes that came up so far.
#include "kernels/choices.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "kernels/sgemm.h"

namespace tb {
namespace {

class Choices {
public:
  bool ours(const ProductSize &size, const std::function<bool()> &gains) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = find(size);
      if (found == choices_.end()) return false;
      Choice &choice = found->second;
      if (choice.uses > few || ++choice.uses <= few) return choice.ours;
    }
    const bool gained = gains();
    const std::lock_guard lock(mutex_);
    return find(size)->second.ours = gained;
  }

  std::vector<TriedProduct> tried() const {
    std::vector<TriedProduct> out;
    const std::lock_guard lock(mutex_);
    for (const auto &[size, choice] : choices_)
      if (choice.uses > few) out.push_back({size, choice.ours});
    return out;
  }

private:
  static constexpr uint32_t few = 4;
  static constexpr size_t most_sizes = 4096;

  struct Choice {
    uint32_t uses = 0; // counted until it is tried
    bool ours = false;
  };
  std::map<ProductSize, Choice>::iterator find(const ProductSize &size) {
    return choices_.size() < most_sizes ? choices_.try_emplace(size).first : choices_.find(size);
  }

  mutable std::mutex mutex_;
  std::map<ProductSize, Choice> choices_; // elements stay where they are
};

Choices &choices() {
  static auto &object = *new Choices; // workers outlive static objects
  return object;
}

} // namespace

bool is_ours(const ProductSize &size, const std::function<bool()> &gains) {
  static const bool possible = has_sgemm();
  if (!possible) return false;
  constexpr int64_t least = 1 << 14, most_elements = 16'000'000; // of a product that is tried; of a factor or output
  const int64_t count = std::max<int64_t>(size.count, 1);
  const int64_t most = std::max({size.rows * size.inner, size.inner * size.columns, size.rows * size.columns});
  if (count * size.rows * size.columns * size.inner < least || count * most > most_elements) return false;
  return choices().ours(size, gains);
}

std::vector<TriedProduct> tried_products() { return choices().tried(); }

TrialOutcome try_product(const std::vector<float> &before, const std::function<void(float *out)> &multiply) {
  TrialOutcome outcome{{}, INT64_MAX};
  for (int i = 0; i < 3; i++) {
    outcome.out = before;
    const auto started = std::chrono::steady_clock::now();
    multiply(outcome.out.data());
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
    outcome.nanoseconds = std::min<int64_t>(outcome.nanoseconds, took.count());
  }
  return outcome;
}

} // namespace tb
