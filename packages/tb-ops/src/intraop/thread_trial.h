// Kernels whose bits depend on the number of threads on some processors and for some shapes only.
//
// Where they do is found by trying: a kernel that comes up again runs on one thread and then with the team, on the data
// of its call. Where each try gave the same bits, and the team was faster, further calls get the team although they are
// short; elsewhere they run on one thread, whose bits every call has, tries included.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <vector>

namespace tb {

// `run` computes the outputs, which are dense, of other tensors alone, and may be called twice. `shape` is what its way
// of working depends on, beginning with something of the kernel's own.
void run_tried(std::vector<int64_t> shape, c10::ArrayRef<at::Tensor> outputs, c10::function_ref<void()> run);

} // namespace tb
