// shallow_copy.cpp -- `x.data = y` and Module.to between CPU and tb. PyTorch allows them for a list of device types
// that does not contain PrivateUse1. Without this file Module.to replaces parameters instead of moving them, so that
// tied weights are separated and optimizers keep the old parameters.
//
// The operator that decides whether two types are compatible gets a kernel, and the hooks behind set_data are wrapped.
// Both do as PyTorch's for every pair without a tb tensor.
//
// A tensor that stands for others (of torch.func, a fake or functional tensor, a subclass with __torch_dispatch__) has the
// keys of a dense tensor, and fields of its own that a shallow copy does not have: a tensor that got its keys alone ends the
// process when it is used. Such a tensor is refused, as one of an incompatible type is. For one of a gradient transform its
// value is taken: `.data` tracks no gradients. So Module.to works inside torch.func.grad.
//
// This file can be removed when PyTorch adds PrivateUse1 to the list.
#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>
#include <ATen/ops/_has_compatible_shallow_copy_type.h>
#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include "components.h"
#include "registration.h"

PyObject *THPVariable_Wrap(const at::TensorBase &); // its header does not go with Python's stable ABI

namespace tb::backend {
namespace {

bool is_dense(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet backends(
      {c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit, c10::BackendComponent::PrivateUse1Bit});
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(backends);
}

// Whether one of the two is a tb tensor, and both are dense.
bool crosses(const at::TensorBase &a, const at::TensorBase &b) {
  return a.defined() && b.defined() && (a.device().type() == device_type || b.device().type() == device_type) &&
         is_dense(a.key_set()) && is_dense(b.key_set());
}

// Whether the tensor stands for others.
bool is_wrapper(const at::TensorBase &tensor) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet wrappers({DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                                          DispatchKey::Functionalize, DispatchKey::FuncTorchGradWrapper,
                                          DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchBatchedDecomposition,
                                          DispatchKey::Batched});
  return tensor.key_set().has_any(wrappers);
}

[[noreturn]] void refuse() {
  TORCH_CHECK(false,
              "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
              "type.");
}

// self.data = the value of `data`, a tensor of a gradient transform. The value may be another such tensor. PyTorch gives it
// to Python only: the header of its class in C++ needs one that is not installed.
void set_value(const at::TensorBase &self, const at::TensorBase &data) {
  namespace nb = nanobind;
  const nb::gil_scoped_acquire lock;
  try {
    const nb::object unwrapped = nb::module_::import_("torch._C._functorch").attr("get_unwrapped");
    nb::steal(THPVariable_Wrap(self)).attr("data") = unwrapped(nb::steal(THPVariable_Wrap(data)));
  } catch (const nb::python_error &) {
    refuse();
  }
}

bool compatible(const at::Tensor &self, const at::Tensor &from) {
  return (crosses(self, from) && !is_wrapper(self) && !is_wrapper(from)) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

using Base = at::impl::VariableHooksInterface;
using at::TensorBase;

struct ShallowCopyHooks final : Base {
  explicit ShallowCopyHooks(Base *inner) : inner_(inner) {}

  void set_data(const TensorBase &self, const TensorBase &data) const override {
    if (!crosses(self, data) || self.key_set() == data.key_set()) return inner_->set_data(self, data);
    if (!is_wrapper(self) && !is_wrapper(data)) return copy_fields(self, data);
    if (data.key_set().has(c10::DispatchKey::FuncTorchBatched)) // raises vmap's own error
      (void)at::_has_compatible_shallow_copy_type(at::Tensor(self), at::Tensor(data));
    if (is_wrapper(self) || !data.key_set().has(c10::DispatchKey::FuncTorchGradWrapper)) refuse();
    set_value(self, data);
  }

  TensorBase tensor_data(const TensorBase &t) const override { return inner_->tensor_data(t); }
  TensorBase variable_data(const TensorBase &t) const override { return inner_->variable_data(t); }
  const c10::intrusive_ptr<torch::autograd::Node> &grad_fn(const TensorBase &t) const override {
    return inner_->grad_fn(t);
  }
  unsigned _register_hook(const TensorBase &t, std::function<TensorBase(const TensorBase &)> hook) const override {
    return inner_->_register_hook(t, std::move(hook));
  }
  void remove_hook(const TensorBase &t, unsigned position) const override { inner_->remove_hook(t, position); }
  bool is_view(const TensorBase &t) const override { return inner_->is_view(t); }
  const TensorBase &base(const TensorBase &t) const override { return inner_->base(t); }
  const std::string &name(const TensorBase &t) const override { return inner_->name(t); }
  bool is_leaf(const TensorBase &t) const override { return inner_->is_leaf(t); }
  int64_t output_nr(const TensorBase &t) const override { return inner_->output_nr(t); }
  TensorBase data(const TensorBase &t) const override { return inner_->data(t); }
  int64_t _version(const TensorBase &t) const override { return inner_->_version(t); }
  void retain_grad(const TensorBase &t) const override { inner_->retain_grad(t); }
  bool retains_grad(const TensorBase &t) const override { return inner_->retains_grad(t); }
  void _backward(const at::Tensor &t, at::TensorList inputs, const std::optional<at::Tensor> &gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    inner_->_backward(t, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase &t, bool value) const override { inner_->requires_grad_(t, value); }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                                               torch::jit::Stack *stack) const override {
    inner_->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase &t) const override { return inner_->grad_dtype(t); }
  void set_grad_dtype(const TensorBase &t, const std::optional<c10::ScalarType> &dtype) const override {
    inner_->set_grad_dtype(t, dtype);
  }

private:
  // As PyTorch's own function for compatible types: copies the fields, keeps the version counter, and drops the
  // gradient accumulator, which belongs to the old device.
  static void copy_fields(const TensorBase &self, const TensorBase &data) {
    TORCH_CHECK(!self.requires_grad() || c10::isFloatingType(data.scalar_type()) ||
                    c10::isComplexType(data.scalar_type()),
                "data set to a tensor that requires gradients must be floating point or complex dtype");
    if (auto *meta = torch::autograd::impl::get_autograd_meta(self)) {
      std::lock_guard<std::mutex> lock(meta->mutex_);
      meta->grad_accumulator_.reset();
    }
    self.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
  }

  Base *inner_;
};

} // namespace

void register_shallow_copy() {
  static auto &kernels =
      *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  kernels.impl("_has_compatible_shallow_copy_type", &compatible);
  at::impl::SetVariableHooks(new ShallowCopyHooks(at::impl::GetVariableHooks()));
}

} // namespace tb::backend
