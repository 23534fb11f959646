// The gradients that a step finds and leaves.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>

#include <vector>

#include "step/observation.h"

namespace tb::compile {

// A tensor that gets a gradient, and what the captured call found and left there.
struct StepLeaf {
  PyObject *object;         // borrowed: some functions of PyTorch require that a tensor has no other owner in C++
  at::Tensor before, after; // gradients; undefined: None
  bool reads = false;       // the graph uses the memory of `before`
  bool only_reads = false;  // and neither writes to it nor leaves it as the gradient: another one can be copied there
  // The graph writes a new gradient to the memory of `after`. What callers keep of the last one gets memory of its own
  // before a launch, since a plain step leaves old gradients alone.
  bool renewed = false;
  bool held = false; // the graph's list of what it uses has the memory of `after`

  const at::Tensor &tensor() const;
  const at::Tensor &gradient() const; // of now
  bool fits() const;
  // Copies a gradient that is another tensor to where the graph reads it.
  void prepare() const;
};

// Needs the GIL.
class StepGradients {
public:
  // Before the captured call: notes the gradients of these tensors, which the caller keeps.
  void take(nanobind::list leaves);
  // At the end of the captured call: copies each gradient that replaced one whose memory the graph reads to that memory,
  // where the next launch reads it, unless somebody else has that one.
  void keep_in_place(const Observation &observation);
  // Afterwards: notes the gradients that are there. looks: whether code of the step looks at gradients, so that what it
  // does may depend on one that is not there. False: the call used a tensor that take() did not get.
  bool finish(const Observation &observation, bool looks);

  std::vector<StepLeaf> &leaves() { return leaves_; }

private:
  std::vector<StepLeaf> leaves_;
};

// Autograd accumulates a gradient on the stream on which it first used the tensor, as long as a graph of autograd from then
// exists; a capture cannot use another stream. Lets autograd begin again for tensors that it used on another stream than the
// current one. Returns how many there were, or -1 if somebody has hooked into their accumulation, which stays as it is.
int64_t renew_accumulators(nanobind::list leaves);

// A tensor in the form of another over the other's memory, which gets a copy of the values elsewhere: for what callers keep
// of a tensor that the graph uses. On the current stream.
at::Tensor take_memory(const at::Tensor &tensor);

// Whether somebody besides so many owners has the tensor object, or a view of its memory. Needs the GIL.
bool is_kept(const at::Tensor &tensor, size_t owners, size_t owners_of_storage);

} // namespace tb::compile
