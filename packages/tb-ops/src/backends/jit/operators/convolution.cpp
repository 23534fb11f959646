// Convolution, forward and backward, transposed or not. PyTorch's own composite checks the shapes and ends here.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/volume.h"
#include "backends/jit/pointwise.h"
#include "tensor/convolution_format.h"
#include "tensor/outputs.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/sum_ops.h>

#include <limits>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct ConvolutionNumbers {
  c10::IntArrayRef stride, padding, dilation;
  int64_t groups;
};

// The first of the others is the weight, whose numbers kernels count in 32 bits.
bool convolvable(const Tensor &input, std::initializer_list<const Tensor *> others) {
  for (const Tensor *tensor : others)
    if (tensor->defined() && (tensor->scalar_type() != input.scalar_type() || !supported({tensor}))) return false;
  return supported({&input}) && c10::isFloatingType(input.scalar_type()) && input.dim() >= 3 && input.dim() <= 5 &&
         moderate(input) && (*others.begin())->numel() < std::numeric_limits<int32_t>::max();
}

// Returns the memory format of the CPU's results.
c10::MemoryFormat result_format(const Tensor &input, const Tensor &weight, const OptionalTensor &bias,
                                const ConvolutionNumbers &with, bool transposed, c10::IntArrayRef output_padding) {
  return convolution_format(input, weight, bias,
                            {with.stride, with.padding, with.dilation, output_padding, transposed, with.groups});
}

// The arguments of a convolution that maps `image` to `result`, or of one that goes the other way.
kernels::ConvolutionArguments convolution_arguments(const Tensor &image, const Tensor &result, const Tensor &weight,
                                                    const ConvolutionNumbers &with, bool transposed) {
  const int64_t spatial = weight.dim() - 2;
  kernels::ConvolutionArguments arguments{};
  arguments.groups = with.groups, arguments.parts = 1;
  arguments.rows = weight.size(0) / with.groups, arguments.depth = weight.size(1);
  arguments.weight_row = weight.stride(0), arguments.weight_depth = weight.stride(1);
  arguments.weight_group = arguments.rows * weight.stride(0);
  if (transposed) {
    std::swap(arguments.rows, arguments.depth);
    std::swap(arguments.weight_row, arguments.weight_depth);
  }
  arguments.source = volume_of(transposed ? result : image, spatial);
  arguments.target = volume_of(transposed ? image : result, spatial);
  arguments.weight = const_cast<void *>(weight.const_data_ptr());
  take_numbers(arguments.weight_strides, weight.strides().slice(2), spatial, 0);
  take_numbers(arguments.kernel, weight.sizes().slice(2), spatial, 1);
  take_numbers(arguments.stride, with.stride, spatial, 1);
  take_numbers(arguments.padding, with.padding, spatial, 0);
  take_numbers(arguments.dilation, with.dilation, spatial, 1);
  return arguments;
}

constexpr int64_t least_side = 32; // the smallest tile of any shim
constexpr int64_t few_rows = 8;    // rows of a group that leave most of a tile empty

int64_t tiles(const kernels::ConvolutionArguments &arguments, int64_t columns) {
  return arguments.groups * ((arguments.rows + least_side - 1) / least_side) *
         ((columns + least_side - 1) / least_side);
}

// Computes the target of a convolution.
void convolve(const kernels::ConvolutionArguments &arguments, bool transposed, const Tensor &target) {
  if (target.numel() == 0) return;
  const std::string types = std::string("<") + type_name(target.scalar_type()) + (transposed ? ", true>" : ", false>");
  const c10::DeviceIndex device = device_number(target);
  if (arguments.rows < few_rows)
    return launch_elements(device, {"convolution.cuh", "convolution_narrow" + types, "ConvolutionArguments"},
                           target.numel(), arguments);
  launch_tiles(device, {"convolution.cuh", "convolution" + types, "ConvolutionArguments", 256, true},
               tiles(arguments, target.numel() / (arguments.groups * arguments.rows)), arguments);
}

void launch_weight(const char *name, c10::ScalarType type, int64_t blocks, c10::DeviceIndex device,
                   const kernels::ConvolutionArguments &arguments) {
  launch_tiles(device, {"convolution.cuh", instance(name, type), "ConvolutionArguments", 256, true}, blocks, arguments);
}

// Returns how many parts of the places get a block of their own for each tile of the weight: so many that there are
// blocks enough for a device, but none for less than 1024 places.
int64_t parts_of(int64_t places, int64_t weight_tiles) {
  constexpr int64_t blocks = 256;
  return std::max<int64_t>(1, std::min(places / 1024, blocks / weight_tiles));
}

// Computes the gradient of the weight from the image and the gradient of the result.
void convolve_weight(const Tensor &image, const Tensor &result, const ConvolutionNumbers &with, const Tensor &weight) {
  if (weight.numel() == 0) return;
  kernels::ConvolutionArguments arguments = convolution_arguments(image, result, weight, with, false);
  const c10::DeviceIndex device = device_number(weight);
  const c10::ScalarType type = weight.scalar_type();
  if (arguments.rows < few_rows)
    return launch_weight("convolution_weight_narrow", type, weight.numel(), device, arguments);
  const int64_t weight_tiles = tiles(arguments, weight.numel() / weight.size(0));
  const int64_t parts = parts_of(result.numel() / std::max<int64_t>(1, result.size(1)), weight_tiles);
  if (parts == 1) return launch_weight("convolution_weight", type, weight_tiles, device, arguments);
  at::DimVector sizes{parts};
  sizes.append(weight.sizes().begin(), weight.sizes().end());
  const Tensor sums = empty(sizes, {}, type == c10::kDouble ? type : c10::kFloat, device);
  arguments = convolution_arguments(image, result, sums[0], with, false);
  arguments.parts = parts;
  launch_weight("convolution_weight_parts", type, weight_tiles * parts, device, arguments);
  Tensor(weight).copy_(at::_ops::sum_dim_IntList::call(sums, {{0}}, false, std::nullopt));
}

Tensor convolution(const Tensor &input, const Tensor &weight, const OptionalTensor &bias, c10::IntArrayRef stride,
                   c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                   c10::IntArrayRef output_padding, int64_t groups) {
  const Tensor &shift = value_or_undefined(bias);
  if (!convolvable(input, {&weight, &shift}) || refuses_convolution(stride, dilation, transposed, output_padding))
    return call_fallback<at::_ops::convolution>(input, weight, bias, stride, padding, dilation, transposed,
                                                output_padding, groups);
  common_device("aten::convolution", {&input, &weight, &shift});
  const std::vector<int64_t> sizes =
      transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride, dilation,
                                               groups)
                 : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  const ConvolutionNumbers with{stride, padding, dilation, groups};
  Tensor out = empty_formatted(input, sizes, input.scalar_type(),
                               result_format(input, weight, bias, with, transposed, output_padding));
  kernels::ConvolutionArguments arguments = transposed ? convolution_arguments(out, input, weight, with, true)
                                                       : convolution_arguments(input, out, weight, with, false);
  const Tensor numbers = contiguous(shift);
  if (numbers.defined()) arguments.bias = numbers.const_data_ptr();
  convolve(arguments, transposed, out);
  return out;
}

// Sums the gradient over all dimensions but that of the channels.
Tensor bias_gradient(const Tensor &grad) {
  at::DimVector others{0};
  for (int64_t d = 2; d < grad.dim(); d++) others.push_back(d);
  return at::_ops::sum_dim_IntList::call(grad, at::IntArrayRef(others), false, std::nullopt);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor &grad, const Tensor &input, const Tensor &weight,
                                                        c10::IntArrayRef stride, c10::IntArrayRef padding,
                                                        c10::IntArrayRef dilation, bool transposed,
                                                        c10::IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  if (!convolvable(input, {&weight, &grad}) || !moderate(grad)) {
    const at::DimVector bias{grad.size(1)};
    return call_fallback<at::_ops::convolution_backward>(
        grad, input, weight, mask[2] ? at::OptionalIntArrayRef(bias) : at::OptionalIntArrayRef(), stride, padding,
        dilation, transposed, output_padding, groups, mask);
  }
  common_device("aten::convolution_backward", {&grad, &input, &weight});
  const ConvolutionNumbers with{stride, padding, dilation, groups};
  const c10::MemoryFormat format = result_format(input, weight, std::nullopt, with, transposed, output_padding);
  Tensor grad_input, grad_weight;
  if (mask[0]) {
    grad_input = empty_formatted(input, input.sizes(), input.scalar_type(), format);
    convolve(transposed ? convolution_arguments(grad, grad_input, weight, with, false)
                        : convolution_arguments(grad_input, grad, weight, with, true),
             !transposed, grad_input);
  }
  if (mask[1]) {
    grad_weight = empty_formatted(weight, weight.sizes(), weight.scalar_type(), format);
    if (transposed)
      convolve_weight(grad, input, with, grad_weight);
    else
      convolve_weight(input, grad, with, grad_weight);
  }
  return {std::move(grad_input), std::move(grad_weight), mask[2] ? bias_gradient(grad) : Tensor()};
}

} // namespace

void register_convolution(torch::Library &aten) {
  aten.impl("convolution_overrideable", &convolution);
  aten.impl("convolution_backward_overrideable", &convolution_backward);
}

} // namespace tb::ops::jit
