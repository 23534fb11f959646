// Attention by our microkernel: its calls on tensors, and which sizes it computes.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "microkernels/attention.h"

namespace tb::ops::host {

// The tensors are float CPU tensors, batch x heads x positions x width, whose last dimension is dense. Without a scale it is
// 1 / sqrt(width).
microkernels::Attention attention_of(const microkernels::AttentionSize &size, const at::Tensor &query,
                                     const at::Tensor &key, const at::Tensor &value, std::optional<double> scale);
// See microkernels::Attention; logsumexp is batch x heads x positions. On the OpenMP threads of the calling thread.
bool forward_by_microkernel(const microkernels::Attention &attention, const at::Tensor &out,
                            const at::Tensor &logsumexp);
void backward_by_microkernel(const microkernels::Attention &attention, const at::Tensor &out,
                             const at::Tensor &logsumexp, const at::Tensor &grad, const at::Tensor &grad_query,
                             const at::Tensor &grad_key, const at::Tensor &grad_value);

// The sizes that were tried, and whether our microkernel computes them.
std::vector<std::pair<microkernels::AttentionSize, bool>> tried_attention();

} // namespace tb::ops::host
