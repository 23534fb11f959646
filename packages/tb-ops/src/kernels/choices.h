// Who makes products of float matrices of a size: PyTorch's BLAS, or our kernel where a trial found the same bits sooner.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

namespace tb {

// What the BLAS may choose its way by.
struct ProductSize {
  int64_t count; // of a batch; 0: a product of its own
  int64_t rows, columns, inner;
  bool left_transposed, right_transposed;
  bool adds, dense; // to what the output holds; the output's rows follow each other without a gap
  int threads;
  auto operator<=>(const ProductSize &) const = default;
};

// Whether our kernel makes it, where the processor can run it. `gains` is asked once, when the size has come up a few times: a trial takes as long as ten
// products or so, and where no size comes again it would never pay.
bool is_ours(const ProductSize &size, const std::function<bool()> &gains);

// A size that was tried.
struct TriedProduct {
  ProductSize size;
  bool ours;
};
std::vector<TriedProduct> tried_products();

// Numbers from -1 to 1 to try a product with; the same for a `state`, which moves on.
template <class T> std::vector<T> trial_numbers(int64_t size, uint32_t &state) {
  std::vector<T> made(static_cast<size_t>(size));
  for (T &number : made) number = static_cast<T>(static_cast<int32_t>(state = state * 1664525 + 1013904223) * 0x1p-31);
  return made;
}

// What a trial made, and the least of the nanoseconds that a few runs took.
struct TrialOutcome {
  std::vector<float> out;
  int64_t nanoseconds;
  bool gains(const TrialOutcome &other) const { return out == other.out && nanoseconds < other.nanoseconds; }
};
// multiply(out), `out` being `before` each time.
TrialOutcome try_product(const std::vector<float> &before, const std::function<void(float *out)> &multiply);

} // namespace tb
