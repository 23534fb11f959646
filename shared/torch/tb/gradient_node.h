// A node of autograd of one's own that takes part in everything in which PyTorch's own nodes do.
//
//   struct ScaleBackward final : tb::GradientNode<ScaleBackward> {
//     torch::autograd::SavedVariable x;
//     double factor = 1;
//     std::string name() const override { return "ScaleBackward0"; }
//     template <class Self> static auto state(Self &self) { return std::tie(self.x, self.factor); }
//     static variable_list gradients(const variable_list &grads, const Wanted &wanted, const at::Tensor &x, double factor);
//   };
//
// state() names all that gradients() reads: saved variables, which arrive as tensors, and constants. gradients() calls
// operators through the dispatcher only, with symbolic sizes, so that it can be recorded, traced, batched and
// differentiated again. It may get undefined gradients, and returns one tensor for each edge, undefined where
// `wanted` is false. A node may override apply() with a faster way, for calls that nothing observes.
//
// Threads: autograd may run a node on any thread, so apply() and release_variables() take the node's lock.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable_info.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tb/torch_versions.h"

namespace tb {

template <class Derived> class GradientNode : public torch::autograd::Node {
public:
  using variable_list = torch::autograd::variable_list;
  using SavedVariable = torch::autograd::SavedVariable;
  using Wanted = std::vector<bool>; // for each edge, whether its gradient is needed
  using Node::Node;

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    for_each_saved([](SavedVariable &saved) { saved.reset_data(); });
  }

  // Drops the saved variables for good: the last reference to the node is gone, unless Python still has one.
  void release_resources() override {
    Node::release_resources();
    for_each_saved([](SavedVariable &saved) { saved = SavedVariable(); });
  }

  variable_list apply(variable_list &&grads) override {
    const std::lock_guard lock(mutex_);
    return by_formula(grads);
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs &args) const override {
    const auto collect = [&](const auto &item) {
      if constexpr (is_saved<decltype(item)>)
        args.collect(item, /*is_output=*/true); // which is right for an input too
      else
        args.collect(item);
    };
    std::apply([&](const auto &...items) { (collect(items), ...); }, Derived::state(derived()));
  }

  // Puts a call of gradients() into the graph of compiled autograd, which traces it when it compiles the graph.
  variable_list apply_with_saved(const variable_list &grads,
                                 torch::dynamo::autograd::SwapSavedVariables &saved) override {
    namespace compiled = torch::dynamo::autograd;
    std::apply([&](auto &...items) { (saved.before(items), ...); }, Derived::state(derived()));
    compiled::PackedArgs packed;
    packed.pack(wanted());
    std::apply([&](auto &...items) { (packed.pack(unpacked(items)), ...); }, Derived::state(derived()));
    const std::vector<at::IValue> values = packed.vec();
    std::vector<at::TypePtr> schema;
    for (const at::IValue &value : values)
      schema.push_back(value.isTensor() ? at::TypePtr(at::TensorType::get()) : value.type());
    const auto edges = compiled::IValuePacker<std::vector<std::optional<torch::autograd::InputMetadata>>>::pack(
        compiled::get_input_metadata(next_edges()));
    const auto &python = compiled::getPyCompilerInterface();
    // As a custom function the call gets a name of its own each time: optional values differ in their types.
    const std::string function = python->bind_function(saved.get_py_compiler(), typeid(Derived).name(), &call_packed,
                                                       schema, /*is_custom_function=*/true, /*is_traceable=*/true);
    variable_list made =
        python->call_function(saved.get_py_compiler(), "apply_functional", function, grads, values, edges);
    std::apply([&](auto &...items) { (saved.after(items), ...); }, Derived::state(derived()));
    return made;
  }

protected:
  // The gradients by gradients(). The node's lock is held.
  variable_list by_formula(const variable_list &grads) {
    return std::apply([&](auto &...items) { return Derived::gradients(grads, wanted(), unpacked(items)...); },
                      Derived::state(derived()));
  }

private:
  template <class T> static constexpr bool is_saved = std::is_same_v<std::remove_cvref_t<T>, SavedVariable>;
  template <class T> using Unpacked = std::conditional_t<is_saved<T>, at::Tensor, std::remove_cvref_t<T>>;

  Derived &derived() { return static_cast<Derived &>(*this); }
  const Derived &derived() const { return static_cast<const Derived &>(*this); }

  template <class Function> void for_each_saved(const Function &function) {
    const auto call = [&](auto &item) {
      if constexpr (is_saved<decltype(item)>) function(item);
    };
    std::apply([&](auto &...items) { (call(items), ...); }, Derived::state(derived()));
  }

  Wanted wanted() const {
    Wanted found;
    for (size_t i = 0; i < next_edges().size(); i++) found.push_back(task_should_compute_output(i));
    return found;
  }

  template <class T> Unpacked<T> unpacked(T &item) {
    if constexpr (is_saved<T>)
      return item.unpack(getptr());
    else
      return item;
  }

  template <class... Items> static variable_list call_unpacked(const variable_list &grads,
                                                               torch::dynamo::autograd::PackedArgs &packed,
                                                               std::type_identity<std::tuple<Items &...>>) {
    const Wanted wanted = packed.unpack<Wanted>();
    const std::tuple<Unpacked<Items>...> items{packed.template unpack<Unpacked<Items>>()...}; // braces: in this order
    return std::apply([&](const auto &...each) { return Derived::gradients(grads, wanted, each...); }, items);
  }
  static variable_list call_packed(const variable_list &grads, const std::vector<at::IValue> &values) {
    torch::dynamo::autograd::PackedArgs packed(values);
    return call_unpacked(grads, packed, std::type_identity<decltype(Derived::state(std::declval<Derived &>()))>());
  }
};

// Makes `node` the history of a result, for which gradients() gets a gradient in the order of these calls.
inline void record_result(const at::Tensor &result, const c10::intrusive_ptr<torch::autograd::Node> &node) {
  if (result.defined() && torch::autograd::isDifferentiableType(result.scalar_type()))
    torch::autograd::set_history(result, node);
  else
    node->add_input_metadata(torch::autograd::Node::undefined_input());
}

// The gradients, with zeros for those that are undefined. `results` describes the results that they belong to.
inline torch::autograd::variable_list with_zeros(const torch::autograd::variable_list &grads,
                                                 const std::vector<torch::autograd::VariableInfo> &results) {
  torch::autograd::variable_list found = grads;
  at::OptionalDeviceGuard guard;
  for (size_t i = 0; i < found.size(); i++)
    if (!found[i].defined()) found[i] = results[i].zeros(guard);
  return found;
}

// Refuses tensors with forward-mode derivatives: a node has none, and they would be lost without a word.
template <class... Tensors> void refuse_forward_derivatives(const char *name, const Tensors &...tensors) {
  TORCH_CHECK_NOT_IMPLEMENTED(!(torch::autograd::isFwGradDefined(tensors) || ...), "Trying to use forward AD with ",
                              name, " that does not support it. Use reverse-mode AD, or call it under torch.no_grad() ",
                              "and torch.autograd.forward_ad.unpack_dual() if no derivative is wanted");
}

} // namespace tb
