// Compares gradients before and after a captured call.
#include "tb/tensor_caster.h"

#include "step/step_gradients.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>

#include "device/device_type.h"

namespace nb = nanobind;

namespace tb::compile {

bool is_kept(const at::Tensor &tensor, size_t owners, size_t owners_of_storage) {
  // A Python object of the tensor owns it, and is owned by it while the tensor has further owners.
  PyObject *object = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
  if (tensor.use_count() > owners + (object ? 1 : 0)) return true;
  if (object && Py_REFCNT(object) > 1) return true;
  return tensor.storage().use_count() > owners_of_storage;
}

const at::Tensor &StepLeaf::tensor() const { return tensor_unpack(object); }

// Tensor::grad() also asks whether the tensor is a leaf, to warn.
const at::Tensor &StepLeaf::gradient() const { return tensor().unsafeGetTensorImpl()->grad(); }

bool StepLeaf::fits() const {
  const at::Tensor &now = gradient();
  if (!reads || now.is_same(before)) return now.defined() == before.defined();
  return only_reads && now.defined() && now.sizes() == before.sizes() && now.scalar_type() == before.scalar_type();
}

void StepLeaf::prepare() const {
  if (!reads) return;
  const at::Tensor &now = gradient();
  if (!now.is_same(before)) const_cast<at::Tensor &>(before).copy_(now);
}

at::Tensor take_memory(const at::Tensor &tensor) {
  c10::StorageImpl &given = *tensor.storage().unsafeGetStorageImpl();
  c10::Allocator *allocator = given.allocator();
  const size_t bytes = given.nbytes();
  c10::DataPtr fresh = allocator->allocate(bytes);
  allocator->copy_data(fresh.get(), given.data(), bytes);
  c10::DataPtr own = given.set_data_ptr(std::move(fresh));
  at::Tensor made = tensor.detach();
  made.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
  made.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(own), allocator, /*resizable=*/true));
  return made;
}

int64_t renew_accumulators(nb::list leaves) {
  int64_t renewed = 0;
  for (const nb::handle object : leaves) {
    const at::Tensor &leaf = tensor_unpack(object.ptr());
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(leaf);
    if (!accumulator) continue;
    const auto stream = accumulator->stream();
    if (!stream || *stream == c10::impl::VirtualGuardImpl(device_type).getStream(leaf.device())) continue;
    if (!accumulator->post_hooks().empty() || !accumulator->pre_hooks().empty()) return -1;
    auto *meta = torch::autograd::impl::get_autograd_meta(leaf);
    const std::lock_guard lock(meta->mutex_);
    meta->grad_accumulator_.reset();
    renewed++;
  }
  return renewed;
}

void StepGradients::take(nb::list leaves) {
  for (const nb::handle leaf : leaves)
    if (std::ranges::none_of(leaves_, [&](const StepLeaf &one) { return one.object == leaf.ptr(); }))
      leaves_.push_back({leaf.ptr(), tensor_unpack(leaf.ptr()).grad(), {}});
}

void StepGradients::keep_in_place(const Observation &observation) {
  const c10::NoGradGuard no_gradients;
  for (StepLeaf &leaf : leaves_) {
    const at::Tensor now = leaf.tensor().grad();
    if (!leaf.before.defined() || !now.defined() || now.is_same(leaf.before)) continue;
    if (!observation.has_used(leaf.before) || now.sizes() != leaf.before.sizes()) continue;
    if (is_kept(leaf.before, 1, 2)) continue; // `before`, and the observation, which holds its storage
    leaf.before.copy_(now);
    leaf.tensor().mutable_grad() = leaf.before;
    leaf.renewed = true;
  }
}

bool StepGradients::finish(const Observation &observation, bool looks) {
  for (StepLeaf &leaf : leaves_) {
    leaf.after = leaf.tensor().grad();
    leaf.reads = leaf.before.defined() && observation.has_used(leaf.before);
    leaf.only_reads = leaf.reads && !leaf.after.is_same(leaf.before) && !observation.has_written(leaf.before);
    leaf.renewed |= leaf.after.defined() && observation.has_made(leaf.after);
    if (leaf.only_reads && is_kept(leaf.before, 1, 2)) leaf.before = take_memory(leaf.before);
  }
  const std::vector<at::Tensor> used = observation.leaves();
  const bool complete = std::ranges::all_of(used, [&](const at::Tensor &leaf) {
    return std::ranges::any_of(leaves_, [&](const StepLeaf &one) { return one.tensor().is_same(leaf); });
  });
  // A gradient that is there, is not used and stays is none of the step's. One that is not there may be one that the step
  // sets to None.
  std::erase_if(leaves_, [&](const StepLeaf &leaf) {
    return leaf.before.is_same(leaf.after) && !leaf.reads && (leaf.before.defined() || !looks);
  });
  return complete;
}

} // namespace tb::compile
