// plan.h -- an operator is written as a function from its parameters in phase 1 to a Plan.
//
//   Plan softmax(In self, int64_t dim, Out out) { ...check...; return {[=](const Run &run) { ... }, workspace}; }
//   SIM_OPERATOR(Softmax, softmax)   // aclnnSoftmaxGetWorkspaceSize and aclnnSoftmax
//
// The parameters' types determine those of the C function: In is const aclTensor *, Out is aclTensor *, Number is const
// aclScalar *, Dims is const aclIntArray *, Flags is const aclBoolArray *, List is const aclTensorList *. A Maybe...
// may be NULL.
#pragma once

#include <limits>
#include <string_view>
#include <tuple>

#include "../src/entry.h"
#include "../src/export.h"
#include "executor.h"

namespace sim {

struct In {
  int32_t slot = -1, type = kFloat;
  Dims dims;
  explicit operator bool() const { return slot >= 0; }
  const View &in(const Run &run) const { return run.views[static_cast<size_t>(slot)]; }
};
struct Mask : In {}; // a tensor of bool
struct MaybeIn : In {};
struct Out : In {};
struct MaybeOut : Out {};

struct Number {
  bool given = false;
  double real = 0;
  int64_t whole = 0;
  template <class C> C as() const { return std::is_integral_v<C> ? static_cast<C>(whole) : static_cast<C>(real); }
};
struct Lower : Number { // no bound if the scalar is NULL
  template <class C> C as() const {
    using Limits = std::numeric_limits<C>;
    return given ? Number::as<C>() : Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
};
struct Upper : Number {
  template <class C> C as() const {
    using Limits = std::numeric_limits<C>;
    return given ? Number::as<C>() : Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
};
using Flags = std::vector<uint8_t>;
using List = std::vector<In>;

template <class P> struct Parameter { // plain numbers
  using Abi = P;
  static P take(Executor &, P value) { return value; }
};

template <class P> struct TensorParameter {
  using Abi = std::conditional_t<std::is_base_of_v<Out, P>, Tensor *, const Tensor *>;
  static P take(Executor &executor, Abi tensor) {
    constexpr bool optional = std::is_same_v<P, MaybeIn> || std::is_same_v<P, MaybeOut>;
    if (!tensor && !optional) refuse(kOperatorNull, "EZ1005: a tensor is NULL, a parameter");
    P taken;
    taken.slot = std::is_base_of_v<Out, P> ? executor.add_output(tensor) : executor.add_input(tensor);
    if (!tensor) return taken;
    taken.type = executor.view(taken.slot).type;
    taken.dims = executor.view(taken.slot).dims;
    return taken;
  }
};
template <> struct Parameter<In> : TensorParameter<In> {};
template <> struct Parameter<Mask> : TensorParameter<Mask> {};
template <> struct Parameter<MaybeIn> : TensorParameter<MaybeIn> {};
template <> struct Parameter<Out> : TensorParameter<Out> {};
template <> struct Parameter<MaybeOut> : TensorParameter<MaybeOut> {};

template <class P> struct NumberParameter {
  using Abi = const Scalar *;
  static P take(Executor &, const Scalar *scalar) {
    if (!scalar && std::is_same_v<P, Number>) refuse(kOperatorNull, "EZ1005: a scalar is NULL, a parameter");
    if (scalar && !alive(scalar, Object::Kind::scalar)) refuse(kOperatorParameter, "EZ1001: a destroyed scalar");
    P taken;
    if (scalar) static_cast<Number &>(taken) = {true, scalar->real, scalar->whole};
    return taken;
  }
};
template <> struct Parameter<Number> : NumberParameter<Number> {};
template <> struct Parameter<Lower> : NumberParameter<Lower> {};
template <> struct Parameter<Upper> : NumberParameter<Upper> {};

template <class T, Object::Kind kind> const T &need(const T *object) {
  if (!object) refuse(kOperatorNull, "EZ1005: an array or list is NULL, a parameter");
  if (!alive(object, kind)) refuse(kOperatorParameter, "EZ1001: a destroyed array or list");
  return *object;
}
template <> struct Parameter<Dims> {
  using Abi = const Ints *;
  static Dims take(Executor &, Abi array) { return need<Ints, Object::Kind::ints>(array).values; }
};
template <> struct Parameter<Flags> {
  using Abi = const Bools *;
  static Flags take(Executor &, Abi array) { return need<Bools, Object::Kind::bools>(array).values; }
};
template <> struct Parameter<List> {
  using Abi = const Tensors *;
  static List take(Executor &executor, Abi list) {
    List taken;
    for (const Tensor *each : need<Tensors, Object::Kind::tensors>(list).each)
      taken.push_back(Parameter<In>::take(executor, each));
    return taken;
  }
};
template <> struct Parameter<std::string_view> {
  using Abi = const char *;
  static std::string_view take(Executor &, Abi text) {
    if (!text) refuse(kOperatorNull, "EZ1005: a text is NULL, a parameter");
    return text;
  }
};

// Phase 1.
template <Text name, auto plan> struct Operator;
template <Text name, class... P, Plan (*plan)(P...)> struct Operator<name, plan> {
  static Error prepare(typename Parameter<P>::Abi... parameters, uint64_t *workspace, Executor **out) {
    return Executor::prepare(name.characters, workspace, out, [&](Executor &executor) {
      // The braces evaluate the parameters in order.
      return std::apply(plan, std::tuple<P...>{Parameter<P>::take(executor, parameters)...});
    });
  }
};

// Phase 2.
template <Text function, Text name> struct Launch {
  static inline Counter counter{function.characters};
  static Error call(void *workspace, uint64_t size, Executor *executor, void *stream) {
    Error late = kOk;
    Error error = enter(counter, Needs::device, &late);
    if (!error) error = Executor::launch(name.characters, workspace, size, executor, stream);
    if (error) Executor::drop(executor);
    leave(counter);
    return error;
  }
};

// Checks that plans use.
inline void must(bool right, const char *what) {
  if (!right) refuse(kOperatorParameter, "EZ1013: %s: a parameter", what);
}
inline void must_be_same_type(const In &one, const In &other) {
  must(one.type == other.type, "tensors of different types");
}
inline void must_have(const In &tensor, const Dims &dims) { must(tensor.dims == dims, "a tensor of the wrong shape"); }
// The index of a dimension of `rank` dimensions. A negative one counts from the end.
size_t dimension(int64_t dim, size_t rank);
Dims broadcast(const Dims &one, const Dims &other);

} // namespace sim

#define SIM_OPERATOR(name, ...)                                                                                        \
  SIM_EXPORT(aclnn##name##GetWorkspaceSize, (&sim::Entry<"aclnn" #name "GetWorkspaceSize", sim::Needs::device,         \
                                                         &sim::Operator<#name, __VA_ARGS__>::prepare>::call))          \
  SIM_EXPORT(aclnn##name, (&sim::Launch<"aclnn" #name, #name>::call))
