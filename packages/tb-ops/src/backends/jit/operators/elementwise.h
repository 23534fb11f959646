// Implements the out= schema of structured operators. PyTorch's meta function builds the iterator, and a functor
// computes the elements. PyTorch derives the functional and the in-place schemas from the out= schema.
#pragma once
#include <algorithm>
#include <string_view>

#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"
#include "dispatch/device_check.h"
#include "runtime/same_device.h"

namespace tb::ops::jit {

// The functor that an operator runs, and the scalars among its arguments.
struct Work {
  const char *functor;
  c10::SmallVector<c10::Scalar, 2> scalars;

  void take(const c10::Scalar &value) { scalars.push_back(value); }
  template <class Argument> void take(const Argument &) {}
};

// False for a functor that does not compile for the type, or whose operator is for other types only.
inline bool has_functor(std::string_view functor, c10::ScalarType type) {
  if (functor.starts_with("Bitwise")) return !c10::isFloatingType(type);
  if (type == c10::kBool && (functor == "Floor" || functor == "Ceiling" || functor == "Truncate" || functor == "Round"))
    return false;
  constexpr std::string_view floating[] = {
      "Elu", "Gelu", "HardSigmoid", "LeakyRelu", "Mish", "Silu", "SigmoidBackward", "Softplus", "TanhBackward"};
  const auto named = [&](std::string_view name) { return functor.starts_with(name); };
  return c10::isFloatingType(type) || std::none_of(std::begin(floating), std::end(floating), named);
}

// Runs the functor of that name with the operator's scalars, in their order.
template <Name functor> inline constexpr auto plain = [](const auto &...arguments) {
  Work work{functor.value, {}};
  (work.take(arguments), ...);
  return work;
};

template <class Op, class Meta, auto work, class Given = typename Op::schema> struct Elementwise;
template <class Op, class Meta, auto work, class... Given> struct Elementwise<Op, Meta, work, at::Tensor &(Given...)> {
  static at::Tensor &call(Given... given) {
    const std::tuple<Given...> all(given...);
    return split(all, std::make_index_sequence<sizeof...(Given) - 1>());
  }

  template <size_t... i> static at::Tensor &split(const std::tuple<Given...> &all, std::index_sequence<i...>) {
    at::Tensor &out = std::get<sizeof...(Given) - 1>(all);
    Out<Meta> op(out);
    op.meta(meta_argument(std::get<i>(all))...);
    if (!fits(op)) return call_fallback<Op>(std::get<i>(all)..., out);
    const Work todo = work(std::get<i>(all)...);
    const c10::ScalarType first = op.ninputs() > 0 ? op.input_dtype(0) : op.dtype(0);
    const c10::ScalarType type = op.maybe_common_dtype().value_or(first);
    if (!has_functor(todo.functor, type)) return call_fallback<Op>(std::get<i>(all)..., out);
    pointwise(op, todo.functor, type, todo.scalars);
    return out;
  }
};

template <class Op> std::string schema_name() {
  return *Op::overload_name ? std::string(Op::name) + "." + Op::overload_name : std::string(Op::name);
}

template <class Op, class Meta, auto work> void add(torch::Library &aten) {
  aten.impl(schema_name<Op>().c_str(), &Elementwise<Op, Meta, work>::call);
}

// Runs PyTorch's own function, which ends in a stub, if the kernels support the tensors and `takes` their types, else the
// fallback. PyTorch's wrapper, which is not called, compares the devices; an iterator takes a number of the host.
constexpr bool any_type(c10::ScalarType) { return true; }
template <class Op, typename Op::schema *function, bool (*takes)(c10::ScalarType) = &any_type,
          class Given = typename Op::schema>
struct Supported;
template <class Op, typename Op::schema *function, bool (*takes)(c10::ScalarType), class Result, class... Given>
struct Supported<Op, function, takes, Result(Given...)> {
  static Result call(Given... given) {
    static const bool one_device = needs_one_device(schema_name<Op>());
    std::optional<c10::Device> first;
    if (one_device) (check_device(first, given), ...);
    const bool fit = (supports(given) && ...);
    return fit ? function(given...) : call_fallback<Op>(given...);
  }
  static bool supports(const at::Tensor &tensor) { return supported({&tensor}) && takes(tensor.scalar_type()); }
  template <class Other> static bool supports(const Other &) { return true; }
  static void check_device(std::optional<c10::Device> &first, const at::Tensor &tensor) {
    if (!first) first = tensor.device();
    if (tensor.device() != *first) refuse_devices(Op::name, *first, tensor.device());
  }
  template <class Other> static void check_device(std::optional<c10::Device> &, const Other &) {}
};

template <class Op, typename Op::schema *function, bool (*takes)(c10::ScalarType) = &any_type>
void add_supported(torch::Library &aten) {
  aten.impl(schema_name<Op>().c_str(), &Supported<Op, function, takes>::call);
}

void register_unary(torch::Library &aten);
void register_binary(torch::Library &aten);

} // namespace tb::ops::jit
