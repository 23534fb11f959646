// Kernels whose result depends on the number of threads only on some processors and for some shapes.
//
// A kernel whose shape recurs is tried on the data of its calls, on one thread and then on several. If each trial was
// bit-identical and several threads were faster, later calls get them although they are short. Otherwise they run on one
// thread. The results of all calls, including those of the trials, are those of one thread.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <vector>

namespace tb::ops {

// `run` computes the dense outputs from other tensors and may be called twice. `shape` holds what its algorithm depends on,
// and begins with a number that identifies the kernel.
void run_on_tried_threads(std::vector<int64_t> shape, c10::ArrayRef<at::Tensor> outputs, c10::function_ref<void()> run);

} // namespace tb::ops
