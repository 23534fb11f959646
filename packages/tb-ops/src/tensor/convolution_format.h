// What the CPU's convolutions do with a call, by its shapes and numbers alone, so that nothing waits for data.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace tb::ops {

struct ConvolutionOptions {
  c10::IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// Returns the memory format in which the CPU's backend for this call returns its results.
c10::MemoryFormat convolution_format(const at::Tensor &input, const at::Tensor &weight,
                                     const std::optional<at::Tensor> &bias, const ConvolutionOptions &with);

// Whether numbers are so that the CPU's kernel refuses the call, whatever the shapes.
bool refuses_convolution(c10::IntArrayRef stride, c10::IntArrayRef dilation, bool transposed,
                         c10::IntArrayRef output_padding);

} // namespace tb::ops
