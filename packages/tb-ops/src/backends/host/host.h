// The hand-written kernels by topic; native.cpp calls every function here once.
#pragma once
#include <torch/library.h>

namespace tb {

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
void register_indexing(torch::Library &aten);
void register_linear(torch::Library &autograd);
void register_losses(torch::Library &aten);
void register_lstm(torch::Library &aten);
void register_batch_norm(torch::Library &aten);
void register_optimizers(torch::Library &aten);
void register_pooling(torch::Library &aten);
void register_ranges(torch::Library &aten);
void register_recurrent(torch::Library &aten);
void register_reductions(torch::Library &aten);

} // namespace tb
