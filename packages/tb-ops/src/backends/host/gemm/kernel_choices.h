// Who computes what of a size: PyTorch's kernel, or ours where a trial found the same bits sooner.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tb {

// The sizes that came up so far.
template <class Size> class Choices {
public:
  // Whether ours computes it. `gains` is asked once, when the size has come up a few times: a trial takes as long as ten
  // calls or so, and where no size comes again it would never pay.
  bool ours(const Size &size, const std::function<bool()> &gains) {
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

  // Those that were tried, and whether they are ours.
  std::vector<std::pair<Size, bool>> tried() const {
    std::vector<std::pair<Size, bool>> out;
    const std::lock_guard lock(mutex_);
    for (const auto &[size, choice] : choices_)
      if (choice.uses > few) out.emplace_back(size, choice.ours);
    return out;
  }

private:
  static constexpr uint32_t few = 4;
  static constexpr size_t most_sizes = 4096;

  struct Choice {
    uint32_t uses = 0; // counted until it is tried
    bool ours = false;
  };
  auto find(const Size &size) {
    return choices_.size() < most_sizes ? choices_.try_emplace(size).first : choices_.find(size);
  }

  mutable std::mutex mutex_;
  std::map<Size, Choice> choices_; // elements stay where they are
};

// What the BLAS may choose its way by, of float matrices.
struct ProductSize {
  int64_t count; // of a batch; 0: a product of its own
  int64_t rows, columns, inner;
  bool left_transposed, right_transposed;
  bool adds, dense; // to what the output holds; the output's rows follow each other without a gap
  int threads;
  auto operator<=>(const ProductSize &) const = default;
};

// Whether our kernel makes the product, where the processor can run it. `gains`: see Choices.
bool is_ours(const ProductSize &size, const std::function<bool()> &gains);
std::vector<std::pair<ProductSize, bool>> tried_products();

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
