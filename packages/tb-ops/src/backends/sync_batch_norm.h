// The operators of torch.nn.SyncBatchNorm, which PyTorch has for CUDA alone. They are composed of other operators, so
// they run on every driver, and fall back to the CPU where those of BatchNorm do.
#pragma once
#include <torch/library.h>

namespace tb::ops {

void register_sync_batch_norm(torch::Library &aten);

} // namespace tb::ops
