// Which products are tried, and how.
#include "backends/host/gemm/kernel_choices.h"

#include <algorithm>
#include <chrono>

#include "microkernels/sgemm.h"

namespace tb {
namespace {

Choices<ProductSize> &choices() {
  static auto &object = *new Choices<ProductSize>; // workers outlive static objects
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

std::vector<std::pair<ProductSize, bool>> tried_products() { return choices().tried(); }

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
