// Tensors of kinds that tb does not have: sparse, quantized, nested.
#pragma once

namespace tb::ops {

// Makes every operator on such a tensor, and PyTorch's own functions that would make one, raise NotImplementedError
// with a remedy.
void register_refused_kinds();

} // namespace tb::ops
