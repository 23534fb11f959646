// pointwise.cpp -- the operators of pointwise.inc, and some whose values follow another rule.
#include "pointwise.h"

#include "arithmetic.h"

namespace sim {
namespace {

// The text "none" or "tanh", as the number 0 or 1.
struct Approximation {
  bool by_tanh;
  template <class C> C as() const { return C(by_tanh); }
};

template <class T> T squared(T x) { return x * x; }

Plan bitwise_not(In self, Out out) {
  must_be(Domain::integer, self.type);
  must_be_same_type(self, out);
  must_have(out, self.dims);
  return {[=](const Run &run) {
    Array<int64_t> values = load<int64_t>(self.in(run));
    for (int64_t &each : values) each = self.type == kBool ? !each : ~each;
    store(out.in(run), values.data());
  }};
}

enum Reduction : int64_t { none, mean, sum };

Plan mse_loss(In self, In target, int64_t reduction, Out out) {
  must_be(Domain::floating, self.type);
  must_be_same_type(self, target);
  must_be_same_type(self, out);
  must(reduction >= none && reduction <= sum, "an unknown reduction");
  const Dims dims = broadcast(self.dims, target.dims);
  must_have(out, reduction == none ? dims : Dims{});
  return {[=](const Run &run) {
            with_floating_kind(self.type, [&]<class C>() {
              Array<C> values = source<C>(run, self, dims);
              const Array<C> targets = source<C>(run, target, dims);
              double total = 0;
              for (int64_t i = 0; i < values.count(); ++i) total += values[i] = squared(values[i] - targets[i]);
              const C one = static_cast<C>(reduction == mean ? total / static_cast<double>(values.count()) : total);
              store(out.in(run), reduction == none ? values.data() : &one);
            });
          },
          reduction == none ? 0u : 1024u};
}

Plan mse_loss_backward(In grad, In self, In target, int64_t reduction, Out out) {
  must_be(Domain::floating, self.type);
  must_be_same_type(self, target);
  must_be_same_type(self, grad);
  must_be_same_type(self, out);
  const Dims dims = broadcast(broadcast(grad.dims, self.dims), target.dims);
  must_have(out, dims);
  return {[=](const Run &run) {
    with_floating_kind(self.type, [&]<class C>() {
      const Array<C> slopes = source<C>(run, grad, dims), targets = source<C>(run, target, dims);
      Array<C> values = source<C>(run, self, dims);
      const C scale = C(2) / C(reduction == mean ? values.count() : 1);
      for (int64_t i = 0; i < values.count(); ++i) values[i] = scale * (values[i] - targets[i]) * slopes[i];
      store(out.in(run), values.data());
    });
  }};
}

} // namespace

template <> struct Parameter<Approximation> {
  using Abi = const char *;
  static Approximation take(Executor &executor, Abi text) {
    const std::string_view name = Parameter<std::string_view>::take(executor, text);
    must(name == "none" || name == "tanh", "an unknown approximation");
    return {name == "tanh"};
  }
};

} // namespace sim

using namespace sim;

#define SIM_UNPACKED(...) __VA_ARGS__
#define SIM_POINTWISE(name, types, result, parameters, value)                                                          \
  namespace {                                                                                                          \
  struct name {                                                                                                        \
    template <class T> static auto at([[maybe_unused]] T a, [[maybe_unused]] T b = {}, [[maybe_unused]] T c = {},      \
                                      [[maybe_unused]] T d = {}) {                                                     \
      return value;                                                                                                    \
    }                                                                                                                  \
  };                                                                                                                   \
  }                                                                                                                    \
  SIM_OPERATOR(name, &pointwise<name, Domain::types, Gives::result, SIM_UNPACKED parameters>)
#include "pointwise.inc"

SIM_OPERATOR(BitwiseNot, &bitwise_not)
SIM_OPERATOR(MseLoss, &mse_loss)
SIM_OPERATOR(MseLossBackward, &mse_loss_backward)
