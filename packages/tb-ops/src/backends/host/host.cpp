// Registers the operators.
#include "backends/host/host.h"

#include "custom/custom.h"
#include "dispatch/data_dependent.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"
#include "dispatch/routes.h"
#include "tensor/output_donation.h"

namespace tb::ops::host {
namespace {

void register_by_topic(torch::Library &aten) {
  register_activations(aten);
  register_assertions(aten);
  register_attention(aten);
  register_convolution(aten);
  register_dropout(aten);
  register_elementwise(aten);
  register_embedding_bag(aten);
  register_fill(aten);
  register_foreach(aten);
  register_histogram(aten);
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

} // namespace

bool serves(const Runtime &runtime) { return runtime.closures; }

void install(torch::Library &aten, torch::Library &autograd) {
  install_output_donation();
  register_structured(aten);
  register_routed_kernels(aten);
  register_by_topic(aten);
  register_linear(autograd);
  register_random(aten);
  register_data_dependent<&run_data_dependent>(aten);
  register_layout_cached(aten); // takes what is left
  register_custom();
}

} // namespace tb::ops::host
