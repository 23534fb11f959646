// Convolution, forward and backward, in any number of dimensions, transposed or not. PyTorch's own composite checks the
// shapes and ends here; the closure starts the same composite again on CPU tensors.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>

#include "backends/host/host.h"
#include "dispatch/call_checked.h"
#include "intraop/thread_policy.h"
#include "tensor/convolution_format.h"
#include "tensor/output_donation.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct Parameters {
  c10::DimVector stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;

  ConvolutionOptions options() const { return {stride, padding, dilation, output_padding, transposed, groups}; }
};

c10::SymIntArrayRef symbolic(const c10::DimVector &list) { return c10::fromIntArrayRefSlow(list); }

// Whether a forward pass is bit-identical on any number of threads. For other convolutions PyTorch and oneDNN choose
// other kernels, some of them by the number of threads.
bool is_thread_invariant(const Tensor &input, const Tensor &weight, bool transposed, int64_t groups) {
  return input.dim() == 4 && input.size(0) > 1 && weight.size(2) > 1 && weight.size(3) > 1 && !transposed &&
         groups == 1;
}

Tensor convolution(const Tensor &input, const Tensor &weight, const OptionalTensor &bias, c10::IntArrayRef stride,
                   c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                   c10::IntArrayRef output_padding, int64_t groups) {
  const c10::DeviceIndex device = common_device("aten::convolution", {&input, &weight, &value_or_undefined(bias)});
  if (input.scalar_type() != weight.scalar_type() ||
      (bias && bias->defined() && bias->scalar_type() != input.scalar_type()) ||
      refuses_convolution(stride, dilation, transposed, output_padding))
    return call_checked<at::_ops::convolution>(input, weight, bias, stride, padding, dilation, transposed,
                                               output_padding, groups);
  Parameters with{c10::DimVector(stride),
                  c10::DimVector(padding),
                  c10::DimVector(dilation),
                  c10::DimVector(output_padding),
                  transposed,
                  groups};
  const std::vector<int64_t> sizes =
      transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation,
                                               groups)
                 : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  Tensor out =
      empty_formatted(input, sizes, input.scalar_type(), convolution_format(input, weight, bias, with.options()));
  launch<"aten::convolution">(device, [x = TensorDescriptor(input), w = TensorDescriptor(weight), b = capture(bias),
                                       with = std::move(with), y = WrittenDescriptor(out),
                                       independent = is_thread_invariant(input, weight, transposed, groups)]() mutable {
    if (!independent) intraop.depend_on_thread_count();
    const Tensor &input = x.as_cpu_tensor(), &weight = w.as_cpu_tensor();
    const OptionalTensor bias = materialize(b);
    OutputDonation donation(
        y.as_cpu_tensor()); // before the work, since the thread policy counts all of a kernel's tensors
    donation.collect(at::_ops::convolution::call(input, weight, bias, symbolic(with.stride), symbolic(with.padding),
                                                 symbolic(with.dilation), with.transposed,
                                                 symbolic(with.output_padding), with.groups));
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                                        c10::IntArrayRef stride, c10::IntArrayRef padding,
                                                        c10::IntArrayRef dilation, bool transposed,
                                                        c10::IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  const c10::DeviceIndex device = common_device("aten::convolution_backward", {&grad, &input, &weight});
  Parameters with{c10::DimVector(stride),
                  c10::DimVector(padding),
                  c10::DimVector(dilation),
                  c10::DimVector(output_padding),
                  transposed,
                  groups};
  const c10::MemoryFormat format = convolution_format(input, weight, std::nullopt, with.options());
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = empty_formatted(input, input.sizes(), input.scalar_type(), format);
  if (mask[1]) grad_weight = empty_formatted(weight, weight.sizes(), weight.scalar_type(), format);
  if (mask[2]) grad_bias = empty_on(weight, {grad.size(1)}, weight.scalar_type());
  launch<"aten::convolution_backward">(
      device, [dy = TensorDescriptor(grad), x = TensorDescriptor(input), w = TensorDescriptor(weight), mask,
               channels = grad.size(1), with = std::move(with), dx = WrittenDescriptor(grad_input),
               dw = WrittenDescriptor(grad_weight), db = WrittenDescriptor(grad_bias)]() mutable {
        const c10::SymInt bias_size = channels;
        const Tensor &grad = dy.as_cpu_tensor(), &input = x.as_cpu_tensor(), &weight = w.as_cpu_tensor();
        OutputDonation donation({dx.as_cpu_tensor(), dw.as_cpu_tensor(), db.as_cpu_tensor()});
        const auto [x_result, w_result, b_result] = at::_ops::convolution_backward::call(
            grad, input, weight,
            mask[2] ? at::OptionalSymIntArrayRef(c10::SymIntArrayRef(bias_size)) : at::OptionalSymIntArrayRef(),
            symbolic(with.stride), symbolic(with.padding), symbolic(with.dilation), with.transposed,
            symbolic(with.output_padding), with.groups, mask);
        donation.collect({x_result, w_result, b_result});
      });
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

} // namespace

void register_convolution(torch::Library &aten) {
  aten.impl("convolution_overrideable", &convolution);
  aten.impl("convolution_backward_overrideable", &convolution_backward);
}

} // namespace tb::ops::host
