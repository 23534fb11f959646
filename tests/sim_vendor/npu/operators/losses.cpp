// losses.cpp -- the loss of classification, forward and backward.
#include "plan.h"

namespace sim {
namespace {

enum Reduction : int64_t { none, mean, sum };

// Rows of classes, each with a target.
struct Rows {
  int64_t rows, classes, ignored;
  Rows(const In &self, const In &target, const In &weight, int64_t reduction, int64_t ignored) : ignored(ignored) {
    must(is_floating(self.type) && weight.type == self.type, "a tensor or weight of the wrong type");
    must(target.type == kInt64 || target.type == kInt32, "targets that are not of int64 or int32");
    must(self.dims.size() == 1 || self.dims.size() == 2, "a tensor of other than 1 or 2 dimensions");
    must(reduction >= none && reduction <= sum, "an unknown reduction");
    classes = self.dims.back();
    rows = self.dims.size() == 2 ? self.dims[0] : 1;
    must_have(target, Dims(self.dims.begin(), self.dims.end() - 1));
    must_have(weight, {classes});
  }
  bool counts(int64_t target) const {
    if (target == ignored) return false;
    if (target < 0 || target >= classes)
      refuse(kCoreException, "EZ9999: AI core exception: no class %lld of %lld", static_cast<long long>(target),
             static_cast<long long>(classes));
    return true;
  }
};

Plan loss(In self, In target, In weight, int64_t reduction, int64_t ignored, Out out, Out total) {
  const Rows all(self, target, weight, reduction, ignored);
  must_be_same_type(self, out);
  must_be_same_type(self, total);
  must_have(out, reduction == none ? target.dims : Dims{});
  must(count_of(total.dims) == 1, "a total weight of other than one element");
  const Work work = [=](const Run &run) {
    with_floating_kind(self.type, [&]<class C>() {
      const Array<C> values = load<C>(self.in(run)), weights = load<C>(weight.in(run));
      const Array<int64_t> targets = load<int64_t>(target.in(run));
      Array<C> losses(all.rows);
      double weight_sum = 0, loss_sum = 0;
      for (int64_t row = 0; row < all.rows; ++row) {
        const int64_t which = targets[row];
        losses[row] = 0;
        if (!all.counts(which)) continue;
        losses[row] = -weights[which] * values[row * all.classes + which];
        weight_sum += weights[which];
        loss_sum += losses[row];
      }
      const C one = static_cast<C>(reduction == mean ? loss_sum / weight_sum : loss_sum);
      const C its_weight = static_cast<C>(reduction == none ? 0 : weight_sum);
      store(out.in(run), reduction == none ? losses.data() : &one);
      store(total.in(run), &its_weight);
    });
  };
  return {work, 1024};
}

Plan loss_backward(In grad, In self, In target, In weight, int64_t reduction, int64_t ignored, In total, Out out) {
  const Rows all(self, target, weight, reduction, ignored);
  must_be_same_type(self, grad);
  must_be_same_type(self, out);
  must_have(out, self.dims);
  must(count_of(grad.dims) == (reduction == none ? all.rows : 1), "a gradient of the wrong shape");
  must(count_of(total.dims) == 1, "a total weight of other than one element");
  return {[=](const Run &run) {
    with_floating_kind(self.type, [&]<class C>() {
      const Array<C> slopes = load<C>(grad.in(run)), weights = load<C>(weight.in(run));
      const Array<int64_t> targets = load<int64_t>(target.in(run));
      const C divisor = reduction == mean ? load<C>(total.in(run))[0] : C(1);
      Array<C> result(all.rows * all.classes);
      std::fill(result.begin(), result.end(), C(0));
      for (int64_t row = 0; row < all.rows; ++row)
        if (const int64_t which = targets[row]; all.counts(which))
          result[row * all.classes + which] = -weights[which] * slopes[reduction == none ? row : 0] / divisor;
      store(out.in(run), result.data());
    });
  }};
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(NLLLoss, &loss)
SIM_OPERATOR(NLLLossBackward, &loss_backward)
