// Runs data-dependent operators with the CPU's kernels.
#include "dispatch/data_dependent.h"

#include "dispatch/redispatch.h"

namespace tb::ops {

void run_data_dependent(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  redispatch_to_cpu(op, stack);
}

} // namespace tb::ops
