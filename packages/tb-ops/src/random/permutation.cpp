// Checks the arguments of randperm.
#include "random/permutation.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>

namespace tb::ops {

void check_permutation(int64_t n, const std::optional<at::Generator> &generator, const at::Tensor &out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  TORCH_CHECK(!generator || out.device() == generator->device(), "Expected a '", out.device(),
              "' generator device but found '", generator ? generator->device() : out.device(), "'");
  const c10::ScalarType type = out.scalar_type();
  // The check gets a tensor of the host, because PyTorch's check makes a tensor of the largest number, which may
  // overflow.
  at::native::check_supported_max_int_with_precision(
      n, at::Tensor(at::detail::empty_cpu({0}, type, std::nullopt, std::nullopt, std::nullopt, std::nullopt)));
  const bool offered = type == c10::kHalf || type == c10::kBFloat16 ||
                       (at::isIntegralType(type, false) && !c10::isBarebonesUnsignedType(type)) ||
                       type == c10::kFloat || type == c10::kDouble;
  TORCH_CHECK_NOT_IMPLEMENTED(offered, "\"randperm\" not implemented for '", type, "'");
}

} // namespace tb::ops
