// Calls the attention microkernel on tensors, and says for which sizes it is used.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "microkernels/attention.h"

namespace tb::ops::host {

// The size of a call on tensors of batch x heads x positions x width.
microkernels::AttentionSize attention_size(const at::Tensor &query, const at::Tensor &key, bool causal, bool backward);

// Describes a call to the microkernel. The tensors are float CPU tensors, batch x heads x positions x width, whose last
// dimension is dense. The default scale is 1 / sqrt(width).
microkernels::Attention attention_of(const microkernels::AttentionSize &size, const at::Tensor &query,
                                     const at::Tensor &key, const at::Tensor &value, std::optional<double> scale);
// These call microkernels::Attention on the OpenMP threads of the calling thread. `logsumexp` is batch x heads x
// positions.
bool forward_by_microkernel(const microkernels::Attention &attention, const at::Tensor &out,
                            const at::Tensor &logsumexp);
void backward_by_microkernel(const microkernels::Attention &attention, const at::Tensor &out,
                             const at::Tensor &logsumexp, const at::Tensor &grad, const at::Tensor &grad_query,
                             const at::Tensor &grad_key, const at::Tensor &grad_value);

// The sizes that were tried, and whether our microkernel computes them.
std::vector<std::pair<microkernels::AttentionSize, bool>> tried_attention();

} // namespace tb::ops::host
