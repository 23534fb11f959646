// The gradients that a step finds and leaves.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>

#include <vector>

#include "step/observation.h"

namespace tb::compile {

// A tensor that gets a gradient, and what the captured call found and left there.
struct StepLeaf {
  PyObject *object; // borrowed: some functions of PyTorch require that a tensor has no other owner in C++
  at::Tensor before, after; // gradients; undefined: None
  bool reads = false;       // the graph uses the memory of `before`
  // The graph writes a new gradient to the memory of `after`. What callers keep of the last one gets memory of its own
  // before a launch, since a plain step leaves old gradients alone.
  bool renewed = false;

  const at::Tensor &tensor() const;
  bool fits() const;
};

// Needs the GIL.
class StepGradients {
public:
  // Before the captured call: notes the gradients of these tensors, which the caller keeps.
  void take(nanobind::list leaves);
  // At the end of the captured call: copies each gradient that replaced one whose memory the graph reads to that memory,
  // where the next launch reads it. False: somebody else has such a gradient, so that no graph can be used.
  bool keep_in_place(const Observation &observation);
  // Afterwards: notes the gradients that are there. False: the call used a tensor that take() did not get.
  bool finish(const Observation &observation);

  std::vector<StepLeaf> &leaves() { return leaves_; }

private:
  std::vector<StepLeaf> leaves_;
};

// Whether somebody besides so many owners has the tensor object, or a view of its memory. Needs the GIL.
bool is_kept(const at::Tensor &tensor, size_t owners, size_t owners_of_storage);

} // namespace tb::compile
