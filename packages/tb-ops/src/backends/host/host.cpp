// Registers the hand-written kernels.
#include "backends/host/host.h"
#include "backends/backends.h"

namespace tb {

void register_native(torch::Library &aten) {
  register_activations(aten);
  register_assertions(aten);
  register_attention(aten);
  register_convolution(aten);
  register_dropout(aten);
  register_elementwise(aten);
  register_embedding_bag(aten);
  register_fill(aten);
  register_foreach(aten);
  register_indexing(aten);
  register_losses(aten);
  register_lstm(aten);
  register_batch_norm(aten);
  register_gradient_scaling(aten);
  register_group_norm(aten);
  register_layer_norm(aten);
  register_optimizers(aten);
  register_pooling(aten);
  register_ranges(aten);
  register_recurrent(aten);
  register_reductions(aten);
}

} // namespace tb
