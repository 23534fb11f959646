// Compares the state of the process with that of the capture, and launches the graph.
#include "tb/tensor_caster.h"

#include "step/step_graph.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "device/components.h"
#include "device/device_type.h"

namespace nb = nanobind;

namespace tb::compile {
namespace {

bool same_form(const at::Tensor &given, const at::Tensor &own) {
  return given.scalar_type() == own.scalar_type() && given.device() == own.device() && given.layout() == at::kStrided &&
         given.sizes() == own.sizes() && given.strides() == own.strides() &&
         !(given.requires_grad() && c10::GradMode::is_enabled());
}

// A graph reads a tensor at each launch, so it must be the same one; a number is contained in the graph.
bool same_value(PyObject *now, PyObject *then) {
  if (now == then) return true;
  if (!now || tensor_check(now) || tensor_check(then)) return false;
  const int equal = PyObject_RichCompareBool(now, then, Py_EQ);
  if (equal < 0) PyErr_Clear(); // for example, of arrays with several elements
  return equal > 0;
}

} // namespace

Modes Modes::current() {
  return {c10::GradMode::is_enabled(),
          c10::InferenceMode::is_enabled(),
          at::autocast::is_autocast_enabled(device_type),
          at::globalContext().deterministicAlgorithms(),
          at::autocast::get_autocast_dtype(device_type),
          c10::impl::VirtualGuardImpl(device_type).getDevice().index()};
}

StepGraph::StepGraph(nb::object replay, std::vector<at::Tensor> arguments, std::vector<at::Tensor> leaves,
                     nb::list before, nb::list after, nb::list entries, nb::list lists, std::vector<at::Tensor> results)
    : replay_(std::move(replay)), arguments_(std::move(arguments)), modes_(Modes::current()),
      entries_(std::move(entries)), lists_(std::move(lists)), results_(std::move(results)) {
  TORCH_CHECK_VALUE(leaves.size() == nb::len(before) && leaves.size() == nb::len(after), leaves.size(), " leaves with ",
                    nb::len(before), " gradients before and ", nb::len(after), " after");
  const auto gradient = [](nb::handle given) { return given.is_none() ? at::Tensor() : nb::cast<at::Tensor>(given); };
  for (size_t i = 0; i < leaves.size(); i++) {
    const void *address = leaves[i].const_data_ptr();
    leaves_.push_back({std::move(leaves[i]), address, gradient(before[i]), gradient(after[i])});
    if (!leaves_.back().before.is_same(leaves_.back().after)) changing_.push_back(leaves_.back());
  }
}

bool StepGraph::numbers_unchanged() const {
  for (const nb::handle entry : entries_) {
    const nb::tuple one = nb::borrow<nb::tuple>(entry);
    PyObject *now = PyDict_GetItemWithError(nb::handle(one[0]).ptr(), nb::handle(one[1]).ptr());
    if (!same_value(now, nb::handle(one[2]).ptr())) return false;
  }
  for (const nb::handle entry : lists_) {
    const nb::tuple one = nb::borrow<nb::tuple>(entry);
    if (static_cast<int64_t>(nb::len(nb::handle(one[0]))) != nb::cast<int64_t>(one[1])) return false;
  }
  return true;
}

bool StepGraph::matches(nb::tuple arguments) const {
  if (arguments.size() != arguments_.size() || !(Modes::current() == modes_)) return false;
  for (size_t i = 0; i < arguments_.size(); i++) {
    const nb::handle given = arguments[i];
    if (!tensor_check(given.ptr()) || !same_form(tensor_unpack(given.ptr()), arguments_[i])) return false;
  }
  for (const Leaf &leaf : leaves_)
    if (leaf.tensor.const_data_ptr() != leaf.address || !leaf.tensor.grad().is_same(leaf.before)) return false;
  return numbers_unchanged();
}

nb::object StepGraph::relaunch(nb::tuple arguments, int64_t stream) {
  if (is_capturing(components.device.current_device()) || current_stream_id() != stream || !matches(arguments))
    return nb::none();
  return launch(std::move(arguments));
}

bool StepGraph::fits() const {
  for (const Leaf &leaf : leaves_) {
    if (leaf.tensor.const_data_ptr() != leaf.address) return false;
    const at::Tensor &gradient = leaf.tensor.grad();
    if (gradient.is_same(leaf.before)) continue;
    if (!gradient.defined() || !leaf.before.defined()) return false;
    if (gradient.sizes() != leaf.before.sizes() || gradient.scalar_type() != leaf.before.scalar_type()) return false;
  }
  return numbers_unchanged();
}

void StepGraph::prepare() {
  const c10::NoGradGuard no_gradients;
  for (Leaf &leaf : leaves_) {
    const at::Tensor gradient = leaf.tensor.grad();
    if (gradient.is_same(leaf.before) || !gradient.defined() || !leaf.before.defined()) continue;
    leaf.before.copy_(gradient);
    leaf.tensor.mutable_grad() = leaf.before;
  }
}

nb::list StepGraph::launch(nb::tuple arguments) {
  const c10::NoGradGuard no_gradients;
  for (size_t i = 0; i < arguments_.size(); i++)
    arguments_[i].copy_(tensor_unpack(nb::handle(arguments[i]).ptr()), /*non_blocking=*/true);
  replay_();
  for (Leaf &leaf : changing_) leaf.tensor.mutable_grad() = leaf.after;
  nb::list copies;
  for (const at::Tensor &result : results_) copies.append(result.clone());
  return copies;
}

int64_t current_stream_id() {
  const c10::impl::VirtualGuardImpl guard(device_type);
  return guard.getStream(guard.getDevice()).id();
}

} // namespace tb::compile
