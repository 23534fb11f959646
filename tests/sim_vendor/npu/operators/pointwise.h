// pointwise.h -- elementwise operators on broadcast tensors and numbers.
#pragma once

#include <type_traits>
#include <utility>

#include "plan.h"

namespace sim {

enum class Domain { floating, number, integer, any }; // number is any type except bool; integer includes bool
enum class Gives { same, truth };                     // the type of the result

inline void must_be(Domain domain, int32_t type) {
  const bool right = domain == Domain::floating  ? is_floating(type)
                     : domain == Domain::number  ? type != kBool
                     : domain == Domain::integer ? !is_floating(type)
                                                 : true;
  must(right, "a tensor of a type that the operator does not have");
}

template <Domain domain, class F> void with_kind_of(int32_t type, F &&f) {
  if constexpr (domain == Domain::floating)
    with_floating_kind(type, f);
  else if constexpr (domain == Domain::integer)
    f.template operator()<int64_t>();
  else
    with_kind(type, f);
}

template <class P> constexpr bool is_tensor = std::is_base_of_v<In, P>;

// A parameter as a source of elements for element().
template <class C, class P> auto source(const Run &run, const P &parameter, const Dims &dims) {
  if constexpr (is_tensor<P>)
    return load<C>(parameter.in(run).expanded(dims));
  else if constexpr (std::is_arithmetic_v<P>)
    return static_cast<C>(parameter);
  else
    return parameter.template as<C>();
}
template <class C> C element(const Array<C> &values, int64_t i) { return values[i]; }
template <class C> C element(C value, int64_t) { return value; }

// The plan that computes F::at<C>(element...) for each element.
template <class F, Domain domain, Gives gives, class... P> Plan pointwise(P... parameters, Out out) {
  int32_t type = -1;
  Dims dims;
  const auto look = [&]<class Q>(const Q &parameter) {
    if constexpr (is_tensor<Q>) {
      dims = broadcast(dims, parameter.dims);
      if constexpr (std::is_same_v<Q, Mask>) {
        must(parameter.type == kBool, "a mask that is not of bool");
      } else {
        must(type < 0 || type == parameter.type, "tensors of different types");
        type = parameter.type;
      }
    }
  };
  (look(parameters), ...);
  if (type < 0) type = out.type; // all parameters are numbers
  must_be(domain, type);
  must(out.type == (gives == Gives::truth ? kBool : type), "a result of the wrong type");
  must_have(out, dims);
  return {[=](const Run &run) {
    with_kind_of<domain>(type, [&]<class C>() {
      const auto work = [&](const auto &...sources) {
        Array<C> result(count_of(dims));
        for (int64_t i = 0; i < result.count(); ++i)
          result[i] = static_cast<C>(F::template at<C>(element(sources, i)...));
        store(out.in(run), result.data());
      };
      work(source<C>(run, parameters, dims)...);
    });
  }};
}

} // namespace sim
