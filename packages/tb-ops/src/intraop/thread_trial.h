// Kernels whose result depends on the number of threads on some processors and for some shapes only.
//
// A trial finds out: a kernel that is called again and again with one shape runs on one thread and then on several, on the
// data of its call. If each trial was bit-identical and several threads were faster, further calls get several threads
// although they are short. Otherwise they run on one thread, whose result every call returns, the trials included.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <vector>

namespace tb::ops {

// `run` computes the dense outputs from other tensors alone, and may be called twice. `shape` is what the kernel's choice of
// algorithm depends on, and begins with a number that identifies the kernel.
void run_with_trial(std::vector<int64_t> shape, c10::ArrayRef<at::Tensor> outputs, c10::function_ref<void()> run);

} // namespace tb::ops
