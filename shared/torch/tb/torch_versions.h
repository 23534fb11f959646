// What differs between the minor versions of PyTorch for which these sources are compiled.
//
// The sources are the same for every version. What a header can answer by its presence is asked that way, and never by a
// version number.
#pragma once
#include <ATen/ops/empty.h>
#include <ATen/ops/var_ops.h>
#include <torch/csrc/autograd/function.h>

// The operators that CUDA's autocast casts to float32 beside PyTorch's list of such operators: `_(name)` for each.
#if __has_include(<ATen/ops/linalg_matrix_sqrth.h>) // since 2.14
#define TB_FP32_BESIDE_THE_LIST(_) _(linalg_matrix_sqrth)
#else
#define TB_FP32_BESIDE_THE_LIST(_)
#endif

namespace tb {

// Reports a node of autograd to the hooks of torch.autograd.graph.node_creation_hook, which exist since 2.14. The node is
// the history of its outputs already, and has saved what its backward pass needs.
inline void report_new_node([[maybe_unused]] const c10::intrusive_ptr<torch::autograd::Node> &node) {
#if __has_include(<torch/csrc/autograd/node_creation_hook.h>)
  torch::autograd::fire_node_creation_hooks(node);
#endif
}

// Refuses the types of which PyTorch computes no variance. `compute` is PyTorch's own function, which raises the error: its
// type differs between versions.
template <class Compute> void check_variance_type(c10::ScalarType type, const Compute &compute) {
  if (!c10::isFloatingType(type) && !c10::isComplexType(type)) compute(at::empty({0}, type));
}
inline void check_variance_type(c10::ScalarType type) {
  check_variance_type(
      type, [](const at::Tensor &empty) { at::_ops::var_correction::call(empty, std::nullopt, std::nullopt, false); });
}

// Whether a subclass of GeneratorImpl that declares philox_state() like this overrides it. It is declared without `override`,
// because it is new in 2.14.
template <class GeneratorImpl>
concept PhiloxStateAgrees = !requires { &GeneratorImpl::philox_state; } ||
                            std::is_same_v<decltype(&GeneratorImpl::philox_state),
                                           void (GeneratorImpl::*)(uint64_t, at::Tensor &, at::Tensor &, at::Tensor &)>;

// Whether a subclass of libkineto::IActivityProfilerSession that declares toggleCollectionDynamic(bool) overrides it. It is
// declared without `override`, because it is new in 2.14.
template <class Session>
concept ToggleAgrees = !requires { &Session::toggleCollectionDynamic; } ||
                       std::is_same_v<decltype(&Session::toggleCollectionDynamic), void (Session::*)(bool)>;

} // namespace tb
