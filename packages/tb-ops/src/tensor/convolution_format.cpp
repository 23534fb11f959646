#include "tensor/convolution_format.h"

#include <ATen/native/ConvUtils.h>

#include <algorithm>

#include "launch/tensor_descriptor.h"
#include "tensor/outputs.h"
#include "worker/worker_tensors.h"

namespace tb::ops {
namespace {

c10::SymIntArrayRef symbolic(c10::IntArrayRef list) { return c10::fromIntArrayRefSlow(list); }

} // namespace

c10::MemoryFormat convolution_format(const at::Tensor &input, const at::Tensor &weight,
                                     const std::optional<at::Tensor> &bias, const ConvolutionOptions &with) {
  WorkerTensorScope aliases;
  TensorDescriptor input_argument(input), weight_argument(weight), bias_argument(value_or_undefined(bias));
  const at::Tensor &x = input_argument.as_cpu_tensor(), &w = weight_argument.as_cpu_tensor();
  const std::optional<at::Tensor> b = bias ? std::optional(bias_argument.as_cpu_tensor()) : std::nullopt;
  const at::native::ConvBackend backend =
      at::native::select_conv_backend(x, w, b, symbolic(with.stride), symbolic(with.padding), symbolic(with.dilation),
                                      with.transposed, symbolic(with.output_padding), with.groups, std::nullopt);
  return at::native::_determine_backend_memory_format(x, w, backend);
}

bool refuses_convolution(c10::IntArrayRef stride, c10::IntArrayRef dilation, bool transposed,
                         c10::IntArrayRef output_padding) {
  if (std::any_of(dilation.begin(), dilation.end(), [](int64_t number) { return number <= 0; })) return true;
  const auto at = [](c10::IntArrayRef list, size_t i) {
    return list.size() == 1 ? list[0] : i < list.size() ? list[i] : 0; // one number stands for all dimensions
  };
  for (size_t i = 0; transposed && i < output_padding.size(); i++)
    if (output_padding[i] >= std::max(at(stride, i), at(dilation, i))) return true;
  return false;
}

} // namespace tb::ops
