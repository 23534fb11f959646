// Compares gradients before and after a captured call.
#include "tb/tensor_caster.h"

#include "step/step_gradients.h"

#include <c10/core/GradMode.h>

#include <algorithm>

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

bool StepLeaf::fits() const {
  const at::Tensor &now = tensor().grad();
  return reads ? now.is_same(before) : now.defined() == before.defined();
}

void StepGradients::take(nb::list leaves) {
  for (const nb::handle leaf : leaves)
    if (std::ranges::none_of(leaves_, [&](const StepLeaf &one) { return one.object == leaf.ptr(); }))
      leaves_.push_back({leaf.ptr(), tensor_unpack(leaf.ptr()).grad(), {}});
}

bool StepGradients::keep_in_place(const Observation &observation) {
  const c10::NoGradGuard no_gradients;
  for (StepLeaf &leaf : leaves_) {
    const at::Tensor now = leaf.tensor().grad();
    if (!leaf.before.defined() || !now.defined() || now.is_same(leaf.before)) continue;
    if (!observation.has_used(leaf.before) || now.sizes() != leaf.before.sizes()) continue;
    if (is_kept(leaf.before, 1, 2)) return false; // `before`, and the observation, which holds its storage
    leaf.before.copy_(now);
    leaf.tensor().mutable_grad() = leaf.before;
    leaf.renewed = true;
  }
  return true;
}

bool StepGradients::finish(const Observation &observation) {
  for (StepLeaf &leaf : leaves_) {
    leaf.after = leaf.tensor().grad();
    leaf.reads = leaf.before.defined() && observation.has_used(leaf.before);
    leaf.renewed |= leaf.after.defined() && observation.has_made(leaf.after);
  }
  const std::vector<at::Tensor> used = observation.leaves();
  const bool complete = std::ranges::all_of(used, [&](const at::Tensor &leaf) {
    return std::ranges::any_of(leaves_, [&](const StepLeaf &one) { return one.tensor().is_same(leaf); });
  });
  // A gradient that is there, is not used and stays is none of the step's. One that is not there may be one that the step
  // sets to None.
  std::erase_if(leaves_, [](const StepLeaf &leaf) {
    return leaf.before.defined() && leaf.before.is_same(leaf.after) && !leaf.reads;
  });
  return complete;
}

} // namespace tb::compile
