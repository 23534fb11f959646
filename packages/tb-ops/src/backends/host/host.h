// The operators of drivers whose memory the host may touch and that run closures. PyTorch's CPU kernels compute them on
// the worker. install() calls each register function once.
#pragma once
#include <torch/library.h>

#include "runtime/runtime.h"

namespace tb::ops::host {

bool serves(const Runtime &runtime);
void install(torch::Library &aten, torch::Library &autograd);

// Generated.
void register_structured(torch::Library &aten);
void register_foreach_patterns(torch::Library &aten);

// Written by hand, by topic.
void register_activations(torch::Library &aten);
void register_assertions(torch::Library &aten);
void register_attention(torch::Library &aten);
void register_convolution(torch::Library &aten);
void register_dropout(torch::Library &aten);
void register_elementwise(torch::Library &aten);
void register_embedding_bag(torch::Library &aten);
void register_gradient_scaling(torch::Library &aten);
void register_group_norm(torch::Library &aten);
void register_layer_norm(torch::Library &aten);
void register_fill(torch::Library &aten);
void register_foreach(torch::Library &aten);
void register_histogram(torch::Library &aten);
void register_indexing(torch::Library &aten);
void register_linear(torch::Library &autograd);
void register_losses(torch::Library &aten);
void register_lstm(torch::Library &aten);
void register_batch_norm(torch::Library &aten);
void register_optimizers(torch::Library &aten);
void register_pooling(torch::Library &aten);
void register_random(torch::Library &aten);
void register_ranges(torch::Library &aten);
void register_recurrent(torch::Library &aten);
void register_reductions(torch::Library &aten);

} // namespace tb::ops::host
