// The generated operators whose CPU kernel tb-ops replaces. A declaration here hides PyTorch's function of that name;
// the replacement's results are bit-identical.
#pragma once
#include <ATen/core/Tensor.h>

namespace at::cpu {}

namespace tb::ops::host::cpu {
using namespace at::cpu;

void mm_outf(const at::Tensor &self, const at::Tensor &mat2, at::Tensor &out);
void addmm_outf(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2, const at::Scalar &beta,
                const at::Scalar &alpha, at::Tensor &out);
void bmm_outf(const at::Tensor &self, const at::Tensor &mat2, at::Tensor &out);
void baddbmm_outf(const at::Tensor &self, const at::Tensor &batch1, const at::Tensor &batch2, const at::Scalar &beta,
                  const at::Scalar &alpha, at::Tensor &out);
void max_pool2d_with_indices_outf(const at::Tensor &self, c10::IntArrayRef kernel_size, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode, at::Tensor &out,
                                  at::Tensor &indices);
void cumsum_outf(const at::Tensor &self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor &out);
void _softmax_outf(const at::Tensor &self, int64_t dim, bool half_to_float, at::Tensor &out);
void gelu_outf(const at::Tensor &self, c10::string_view approximate, at::Tensor &out);
void gelu_backward_outf(const at::Tensor &grad, const at::Tensor &self, c10::string_view approximate, at::Tensor &out);
void sigmoid_outf(const at::Tensor &self, at::Tensor &out);
void silu_outf(const at::Tensor &self, at::Tensor &out);
void elu_outf(const at::Tensor &self, const at::Scalar &alpha, const at::Scalar &scale, const at::Scalar &input_scale,
              at::Tensor &out);
void mish_outf(const at::Tensor &self, at::Tensor &out);
void softplus_outf(const at::Tensor &self, const at::Scalar &beta, const at::Scalar &threshold, at::Tensor &out);
void atan2_outf(const at::Tensor &self, const at::Tensor &other, at::Tensor &out);
void pow_outf(const at::Tensor &self, const at::Scalar &exponent, at::Tensor &out);
void pow_outf(const at::Scalar &self, const at::Tensor &exponent, at::Tensor &out);
void pow_outf(const at::Tensor &self, const at::Tensor &exponent, at::Tensor &out);
// Checks the classes.
void nll_loss_backward_outf(const at::Tensor &grad, const at::Tensor &self, const at::Tensor &target,
                            const std::optional<at::Tensor> &weight, int64_t reduction, int64_t ignored,
                            const at::Tensor &total, at::Tensor &out);
void silu_backward_outf(const at::Tensor &grad, const at::Tensor &self, at::Tensor &out);

} // namespace tb::ops::host::cpu
