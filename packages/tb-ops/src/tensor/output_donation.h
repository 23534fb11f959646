// Results of CPU operators, made where they are wanted.
//
// An operator without an out= form allocates its results, from which they would have to be copied. While a Placement
// lives, an allocation by its thread that is as large as a wanted tensor gets that tensor's memory, each once. This is a
// hint: what the operator made elsewhere is copied, and what it made for itself in such memory does no harm.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <utility>

namespace tb {

class Placement {
public:
  // The wanted tensors: dense, over memory that nothing else uses. Undefined ones want nothing. The operator's arguments
  // are made before, or one could come to lie in a result's memory.
  explicit Placement(c10::ArrayRef<at::Tensor> wanted);
  ~Placement();
  Placement(const Placement &) = delete;
  Placement &operator=(const Placement &) = delete;

  // What the operator gave, in the order of the wanted tensors, comes to lie in them. Ends the placement.
  void take(c10::ArrayRef<at::Tensor> results);

  // For the allocator: memory of so many bytes, or NULL.
  void *give(size_t bytes);

private:
  struct Want {
    at::Tensor tensor;
    bool given = false;
  };
  void end();
  bool gave(const at::Tensor &tensor) const;

  c10::SmallVector<Want, 4> wants_;
  Placement *const before_;
  bool lives_ = true;
};

// Puts the allocator that knows placements before the one that CPU tensors come from. Once, before kernels run.
void install_placements();

// Bytes of results so far that were made where they were wanted, and that were copied there.
std::pair<int64_t, int64_t> placements();

} // namespace tb
