// Resizing of images by the nearest element or by linear interpolation, forward and backward.
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/operators/volume.h"
#include "backends/jit/pointwise.h"

#include <ATen/native/UpSample.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_ops.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_ops.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_ops.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_ops.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_ops.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_ops.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_ops.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_ops.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_backward_ops.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_linear1d_ops.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_ops.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest1d_ops.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_ops.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest2d_ops.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_ops.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_nearest3d_ops.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_ops.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;
using Scale = std::optional<double>;

enum class UpsampleMode { nearest, exact, linear };

constexpr const char *mode_name(UpsampleMode mode) {
  return mode == UpsampleMode::nearest ? "Nearest" : mode == UpsampleMode::exact ? "NearestExact" : "Linear";
}

// Returns the distance in the input between neighbours of the output, in the type that PyTorch's CPU kernels have. As
// there, a given scale is not used where the sizes are equal, nor for an image of twice the size.
template <class Number> double upsample_distance(UpsampleMode mode, int64_t size, int64_t outputs, bool align_corners,
                                                 const Scale &scale, bool image) {
  if (size == outputs && mode != UpsampleMode::exact) return 1;
  if (mode == UpsampleMode::linear)
    return at::native::area_pixel_compute_scale<Number>(size, outputs, align_corners, scale);
  if (mode == UpsampleMode::nearest && image && 2 * size == outputs) return 0.5;
  return at::native::compute_scales_value<float>(scale, size, outputs);
}

kernels::UpsampleArguments upsample_arguments(UpsampleMode mode, const Tensor &input, const Tensor &output,
                                              bool align_corners, std::initializer_list<Scale> scales) {
  const auto spatial = static_cast<int64_t>(scales.size());
  kernels::UpsampleArguments arguments{};
  arguments.input = volume_of(input, spatial), arguments.output = volume_of(output, spatial);
  arguments.align_corners = align_corners, arguments.dimensions = static_cast<int>(spatial);
  const auto find = input.scalar_type() == c10::kDouble ? &upsample_distance<double> : &upsample_distance<float>;
  for (int64_t d = 0; d < 3; d++) {
    const Scale scale = d + spatial < 3 ? Scale() : scales.begin()[d + spatial - 3];
    arguments.scales[d] =
        find(mode, arguments.input.sizes[d], arguments.output.sizes[d], align_corners, scale, spatial == 2);
  }
  return arguments;
}

void launch_upsample(const char *name, UpsampleMode mode, const Tensor &result,
                     const kernels::UpsampleArguments &arguments) {
  const std::string body = std::string(name) + "<" + type_name(result.scalar_type()) + ", " + mode_name(mode) + ">";
  launch_elements(device_number(result), {"upsample.cuh", body, "UpsampleArguments"}, result.numel(), arguments);
}

bool resizable(const Tensor &given, const Tensor &out) {
  return supported({&given, &out}) && given.scalar_type() == out.scalar_type() &&
         c10::isFloatingType(given.scalar_type()) && moderate(given);
}

// The operators of nearest elements, with a scale for each spatial dimension.
template <class Op, class Meta, UpsampleMode mode, class... Scales>
Tensor &upsample_nearest(const Tensor &self, c10::IntArrayRef size, Scales... scales, Tensor &out) {
  if (!resizable(self, out)) return call_fallback<Op>(self, size, scales..., out);
  Out<Meta> op(out);
  op.meta(self, size, scales...);
  if (out.numel() > 0) launch_upsample("upsample", mode, out, upsample_arguments(mode, self, out, false, {scales...}));
  return out;
}

template <class Op, class Meta, UpsampleMode mode, class... Scales>
Tensor &upsample_nearest_backward(const Tensor &grad, c10::IntArrayRef size, c10::IntArrayRef input_size,
                                  Scales... scales, Tensor &out) {
  if (!resizable(grad, out)) return call_fallback<Op>(grad, size, input_size, scales..., out);
  Out<Meta> op(out);
  op.meta(grad, size, input_size, scales...);
  if (out.numel() > 0)
    launch_upsample("upsample_backward", mode, out, upsample_arguments(mode, out, grad, false, {scales...}));
  return out;
}

template <class Op, class Meta, class... Scales>
Tensor &upsample_linear(const Tensor &self, c10::IntArrayRef size, bool align_corners, Scales... scales, Tensor &out) {
  if (!resizable(self, out)) return call_fallback<Op>(self, size, align_corners, scales..., out);
  Out<Meta> op(out);
  op.meta(self, size, align_corners, scales...);
  if (out.numel() > 0)
    launch_upsample("upsample", UpsampleMode::linear, out,
                    upsample_arguments(UpsampleMode::linear, self, out, align_corners, {scales...}));
  return out;
}

template <class Op, class Meta, class... Scales>
Tensor &upsample_linear_backward(const Tensor &grad, c10::IntArrayRef size, c10::IntArrayRef input_size,
                                 bool align_corners, Scales... scales, Tensor &out) {
  if (!resizable(grad, out)) return call_fallback<Op>(grad, size, input_size, align_corners, scales..., out);
  Out<Meta> op(out);
  op.meta(grad, size, input_size, align_corners, scales...);
  if (out.numel() > 0)
    launch_upsample("upsample_backward", UpsampleMode::linear, out,
                    upsample_arguments(UpsampleMode::linear, out, grad, align_corners, {scales...}));
  return out;
}

} // namespace

void register_upsample(torch::Library &aten) {
  using namespace at;
  using namespace at::meta;
  constexpr UpsampleMode near = UpsampleMode::nearest, exact = UpsampleMode::exact;
  aten.impl("upsample_nearest1d.out",
            &upsample_nearest<_ops::upsample_nearest1d_out, structured_upsample_nearest1d, near, Scale>);
  aten.impl("upsample_nearest2d.out",
            &upsample_nearest<_ops::upsample_nearest2d_out, structured_upsample_nearest2d, near, Scale, Scale>);
  aten.impl("upsample_nearest3d.out",
            &upsample_nearest<_ops::upsample_nearest3d_out, structured_upsample_nearest3d, near, Scale, Scale, Scale>);
  aten.impl("_upsample_nearest_exact1d.out",
            &upsample_nearest<_ops::_upsample_nearest_exact1d_out, structured__upsample_nearest_exact1d, exact, Scale>);
  aten.impl("_upsample_nearest_exact2d.out",
            &upsample_nearest<_ops::_upsample_nearest_exact2d_out, structured__upsample_nearest_exact2d, exact, Scale,
                              Scale>);
  aten.impl("_upsample_nearest_exact3d.out",
            &upsample_nearest<_ops::_upsample_nearest_exact3d_out, structured__upsample_nearest_exact3d, exact, Scale,
                              Scale, Scale>);
  aten.impl("upsample_nearest1d_backward.grad_input",
            &upsample_nearest_backward<_ops::upsample_nearest1d_backward_grad_input,
                                       structured_upsample_nearest1d_backward, near, Scale>);
  aten.impl("upsample_nearest2d_backward.grad_input",
            &upsample_nearest_backward<_ops::upsample_nearest2d_backward_grad_input,
                                       structured_upsample_nearest2d_backward, near, Scale, Scale>);
  aten.impl("upsample_nearest3d_backward.grad_input",
            &upsample_nearest_backward<_ops::upsample_nearest3d_backward_grad_input,
                                       structured_upsample_nearest3d_backward, near, Scale, Scale, Scale>);
  aten.impl("_upsample_nearest_exact1d_backward.grad_input",
            &upsample_nearest_backward<_ops::_upsample_nearest_exact1d_backward_grad_input,
                                       structured__upsample_nearest_exact1d_backward, exact, Scale>);
  aten.impl("_upsample_nearest_exact2d_backward.grad_input",
            &upsample_nearest_backward<_ops::_upsample_nearest_exact2d_backward_grad_input,
                                       structured__upsample_nearest_exact2d_backward, exact, Scale, Scale>);
  aten.impl("_upsample_nearest_exact3d_backward.grad_input",
            &upsample_nearest_backward<_ops::_upsample_nearest_exact3d_backward_grad_input,
                                       structured__upsample_nearest_exact3d_backward, exact, Scale, Scale, Scale>);
  aten.impl("upsample_linear1d.out",
            &upsample_linear<_ops::upsample_linear1d_out, structured_upsample_linear1d, Scale>);
  aten.impl("upsample_bilinear2d.out",
            &upsample_linear<_ops::upsample_bilinear2d_out, structured_upsample_bilinear2d, Scale, Scale>);
  aten.impl("upsample_trilinear3d.out",
            &upsample_linear<_ops::upsample_trilinear3d_out, structured_upsample_trilinear3d, Scale, Scale, Scale>);
  aten.impl("upsample_linear1d_backward.grad_input",
            &upsample_linear_backward<_ops::upsample_linear1d_backward_grad_input,
                                      structured_upsample_linear1d_backward, Scale>);
  aten.impl("upsample_bilinear2d_backward.grad_input",
            &upsample_linear_backward<_ops::upsample_bilinear2d_backward_grad_input,
                                      structured_upsample_bilinear2d_backward, Scale, Scale>);
  aten.impl("upsample_trilinear3d_backward.grad_input",
            &upsample_linear_backward<_ops::upsample_trilinear3d_backward_grad_input,
                                      structured_upsample_trilinear3d_backward, Scale, Scale, Scale>);
}

} // namespace tb::ops::jit
