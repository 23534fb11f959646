// Compares the state of the process with that of the capture, and launches the graph.
#include "tb/tensor_caster.h"

#include "step/step_graph.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "device/components.h"
#include "device/device_type.h"
#include "tb/autocast_state.h"

namespace nb = nanobind;

namespace tb::compile {
Modes Modes::current() {
  return {c10::GradMode::is_enabled(),
          c10::InferenceMode::is_enabled(),
          at::autocast::is_autocast_enabled(device_type),
          at::autocast::is_autocast_cache_enabled(),
          at::globalContext().deterministicAlgorithms(),
          at::autocast::get_autocast_dtype(device_type),
          c10::impl::VirtualGuardImpl(device_type).getDevice().index()};
}

StepGraph::StepGraph(StepCapture &capture, StepArguments &arguments, Watch &watch, std::vector<StepLeaf> leaves,
                     std::vector<at::Tensor> results, const std::vector<at::Tensor> &written)
    : capture_(capture), arguments_(arguments), watch_(watch), modes_(Modes::current()), leaves_(std::move(leaves)),
      results_(std::move(results)), held_(capture.observation().storages()) {
  for (const at::Tensor &tensor : written)
    if (!tensor.is_inference()) written_.push_back(tensor.unsafeGetTensorImpl()->version_counter());
  for (const c10::Storage &storage : held_) used_.insert(storage.unsafeGetStorageImpl());
  for (StepLeaf &leaf : leaves_)
    leaf.held = leaf.after.defined() && used_.contains(leaf.after.storage().unsafeGetStorageImpl());
}

std::string StepGraph::difference(const std::vector<at::Tensor> &arguments) const {
  if (!(Modes::current() == modes_)) return "a mode of PyTorch (gradients, autocast, the current device)";
  if (!arguments_.match(arguments)) return "the memory of the arguments";
  for (size_t i = 0; i < arguments.size(); i++)
    if (!arguments_.is_bound(i) && arguments[i].has_storage() &&
        used_.contains(arguments[i].storage().unsafeGetStorageImpl()))
      return "the memory of the arguments";
  if (const std::string *name = watch_.difference()) return *name;
  for (const StepLeaf &leaf : leaves_)
    if (!leaf.fits()) return "which gradients are there, or where they are";
  return "";
}

// Gives what a caller has kept of the gradient of the last step memory of its own, and the graph another tensor over its
// memory. A plain step makes a new gradient, and leaves the old one alone.
void StepGraph::release(StepLeaf &leaf) {
  const bool current = leaf.gradient().is_same(leaf.after), same = leaf.before.is_same(leaf.after);
  if (!is_kept(leaf.after, 1 + current + same, 1 + leaf.held)) return;
  const c10::StorageImpl *storage = leaf.after.storage().unsafeGetStorageImpl();
  at::Tensor made = take_memory(leaf.after);
  for (c10::Storage &one : held_)
    if (one.unsafeGetStorageImpl() == storage) one = made.storage();
  if (used_.erase(storage)) used_.insert(made.storage().unsafeGetStorageImpl());
  if (same) {
    if (leaf.reads && current) leaf.tensor().mutable_grad() = made;
    leaf.before = made;
  }
  leaf.after = std::move(made);
}

std::vector<at::Tensor> StepGraph::launch(const std::vector<at::Tensor> &arguments) {
  const c10::NoGradGuard no_gradients;
  for (StepLeaf &leaf : leaves_)
    if (leaf.renewed && leaf.after.defined()) release(leaf);
  for (const StepLeaf &leaf : leaves_) leaf.prepare();
  arguments_.load(arguments);
  capture_.launch();
  arguments_.store(arguments);
  for (StepLeaf &leaf : leaves_)
    if (!leaf.gradient().is_same(leaf.after)) leaf.tensor().mutable_grad() = leaf.after;
  for (const c10::VariableVersion &version : written_) const_cast<c10::VariableVersion &>(version).bump();
  return results(arguments);
}

std::vector<at::Tensor> StepGraph::results(const std::vector<at::Tensor> &arguments) const {
  const c10::NoGradGuard no_gradients;
  const Observation &observation = capture_.observation();
  std::vector<at::Tensor> found;
  found.reserve(results_.size());
  std::vector<std::pair<const c10::StorageImpl *, c10::Storage>> copied;
  for (const at::Tensor &result : results_) {
    if (std::optional<at::Tensor> of_caller = arguments_.of_caller(result, arguments)) {
      found.push_back(std::move(*of_caller));
      continue;
    }
    if (!observation.has_made(result)) {
      found.push_back(result.detach());
      continue;
    }
    const c10::StorageImpl *storage = result.storage().unsafeGetStorageImpl();
    const bool shared = std::ranges::count_if(results_, [&](const at::Tensor &one) {
                          return one.has_storage() && one.storage().unsafeGetStorageImpl() == storage;
                        }) > 1;
    if (!shared) {
      found.push_back(result.clone());
      continue;
    }
    auto at = std::ranges::find(copied, storage, &decltype(copied)::value_type::first);
    if (at == copied.end()) { // results that share memory share a copy of it
      c10::Allocator *allocator = result.storage().allocator();
      c10::DataPtr fresh = allocator->allocate(result.storage().nbytes());
      allocator->copy_data(fresh.get(), result.storage().data(), result.storage().nbytes());
      copied.emplace_back(storage, c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                                         result.storage().nbytes(), std::move(fresh),
                                                                         allocator, /*resizable=*/true));
      at = copied.end() - 1;
    }
    at::Tensor made = result.detach();
    made.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
    made.unsafeGetTensorImpl()->set_storage_keep_dtype(at->second);
    found.push_back(std::move(made));
  }
  return found;
}

nb::object StepGraph::relaunch(nb::tuple given, int64_t stream) {
  if (given.size() != arguments_.size() || current_stream_id() != stream ||
      is_capturing(components.device.current_device()))
    return nb::none();
  std::vector<at::Tensor> arguments;
  arguments.reserve(given.size());
  for (const nb::handle one : given) {
    if (!tensor_check(one.ptr())) return nb::none();
    arguments.push_back(tensor_unpack(one.ptr()));
  }
  if (!difference(arguments).empty()) return nb::none();
  nb::list made;
  for (const at::Tensor &result : launch(arguments)) made.append(result);
  return made;
}

int64_t current_stream_id() {
  const c10::impl::VirtualGuardImpl guard(device_type);
  return guard.getStream(guard.getDevice()).id();
}

} // namespace tb::compile
