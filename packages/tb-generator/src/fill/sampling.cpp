// Random indices: permutations, and samples with given weights.
#include "fill/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

namespace tb::generator {
namespace {

using Keyed = std::pair<uint64_t, int64_t>;

std::vector<uint64_t> words(uint64_t count, State state) {
  std::vector<uint64_t> drawn(count);
  fill({.kind = TB_FILL_INTEGERS, .width = 0}, drawn.data(), TB_INT64, {0, count}, state);
  return drawn;
}

[[noreturn]] void refuse(std::string text) { throw Refusal{TB_INVALID_ARGUMENT, "multinomial: " + std::move(text)}; }

} // namespace

// One pass distributes the keys to buckets by their upper bits, a few keys to a bucket; then each bucket is sorted.
void permutation(int64_t *dst, uint64_t count, State state) {
  if (count < 2) {
    std::fill_n(dst, count, 0);
    return;
  }
  const std::vector<uint64_t> drawn = words(count, state);
  const int bits = std::clamp(static_cast<int>(std::bit_width(count)) - 2, 1, 20), shift = 64 - bits;
  std::vector<uint64_t> ends((size_t{1} << bits) + 1);
  for (const uint64_t word : drawn) ends[(word >> shift) + 1]++;
  for (size_t bucket = 1; bucket < ends.size(); bucket++) ends[bucket] += ends[bucket - 1];
  std::vector<Keyed> sorted(count);
  for (uint64_t i = 0; i < count; i++) sorted[ends[drawn[i] >> shift]++] = {drawn[i], static_cast<int64_t>(i)};
  uint64_t start = 0; // ends[bucket] was the bucket's beginning before the pass, and is its end now
  for (size_t bucket = 0; bucket + 1 < ends.size(); start = ends[bucket++])
    std::sort(sorted.data() + start, sorted.data() + ends[bucket]);
  for (uint64_t i = 0; i < count; i++) dst[i] = sorted[i].second;
}

void multinomial(int64_t *dst, uint64_t samples, const double *weights, uint64_t classes, bool replacement,
                 State state) {
  std::vector<double> sums(classes);
  uint64_t possible = 0;
  double sum = 0;
  for (uint64_t i = 0; i < classes; i++) {
    if (!(std::isfinite(weights[i]) && weights[i] >= 0))
      refuse("weight " + std::to_string(i) + " is below 0, infinity or NaN. Give finite weights >= 0");
    possible += weights[i] > 0;
    sums[i] = sum += weights[i];
  }
  if (samples == 0) return;
  if (!(sum > 0 && std::isfinite(sum)))
    refuse("the weights sum to " + std::to_string(sum) + ". Give some that are above 0 and a finite sum");
  if (!replacement && samples > possible)
    refuse(std::to_string(samples) + " samples of " + std::to_string(possible) +
           " weights above 0 without replacement. Ask for fewer samples, or sample with replacement");
  std::vector<double> numbers(replacement ? samples : classes);
  const Range all{0, numbers.size()};
  if (replacement) {
    fill({.kind = TB_FILL_UNIFORM}, numbers.data(), TB_FLOAT64, all, state);
    const double last = std::nextafter(sum, 0.0); // the product below may round up to the sum
    for (uint64_t i = 0; i < samples; i++)
      dst[i] = std::upper_bound(sums.begin(), sums.end(), std::min(numbers[i] * sum, last)) - sums.begin();
    return;
  }
  // Each class gets an exponential waiting time with its weight as the rate; the samples are the classes with the
  // shortest times, in this order. A class of weight 0 never occurs.
  fill({.kind = TB_FILL_EXPONENTIAL, .first = 1}, numbers.data(), TB_FLOAT64, all, state);
  std::vector<std::pair<double, int64_t>> waiting;
  waiting.reserve(possible);
  for (uint64_t i = 0; i < classes; i++)
    if (weights[i] > 0) waiting.emplace_back(numbers[i] / weights[i], static_cast<int64_t>(i));
  std::partial_sort(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(samples), waiting.end());
  for (uint64_t i = 0; i < samples; i++) dst[i] = waiting[i].second;
}

} // namespace tb::generator
