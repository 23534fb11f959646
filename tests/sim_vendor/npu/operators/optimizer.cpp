// optimizer.cpp -- one step of AdamW.
#include <cmath>

#include "plan.h"

namespace sim {
namespace {

// `step` is the number of steps before this one.
Plan adamw(Out parameter, Out first, Out second, MaybeOut largest, In grad, In step, float rate, float beta1,
           float beta2, float decay, float epsilon, bool amsgrad, bool maximize) {
  must(is_floating(parameter.type), "a parameter that is not floating");
  for (const In *each : std::initializer_list<const In *>{&first, &second, &grad}) {
    must_be_same_type(parameter, *each);
    must_have(*each, parameter.dims);
  }
  must(count_of(step.dims) == 1 && (step.type == kFloat || step.type == kInt64), "a step that is not one number");
  must(!amsgrad || largest, "amsgrad without its tensor");
  if (largest) must_have(largest, parameter.dims);
  return {[=](const Run &run) {
    with_floating_kind(parameter.type, [&]<class C>() {
      Array<C> values = load<C>(parameter.in(run)), means = load<C>(first.in(run)), squares = load<C>(second.in(run));
      Array<C> slopes = load<C>(grad.in(run)), maxima(0);
      if (amsgrad) maxima = load<C>(largest.in(run));
      const double number = load<double>(step.in(run))[0] + 1;
      const double correction1 = 1 - std::pow(double(beta1), number);
      const double correction2 = std::sqrt(1 - std::pow(double(beta2), number));
      for (int64_t i = 0; i < values.count(); ++i) {
        const double slope = maximize ? -slopes[i] : slopes[i];
        double value = values[i] * (1 - double(rate) * decay);
        means[i] = static_cast<C>(means[i] + (slope - means[i]) * (1 - double(beta1)));
        squares[i] = static_cast<C>(squares[i] * double(beta2) + slope * slope * (1 - double(beta2)));
        double square = squares[i];
        if (amsgrad) square = maxima[i] = std::max(maxima[i], squares[i]);
        value -= rate / correction1 * means[i] / (std::sqrt(square) / correction2 + epsilon);
        values[i] = static_cast<C>(value);
      }
      store(parameter.in(run), values.data());
      store(first.in(run), means.data());
      store(second.in(run), squares.data());
      if (amsgrad) store(largest.in(run), maxima.data());
    });
  }};
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(ApplyAdamWV2, &adamw)
