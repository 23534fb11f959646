// GradScaler's two operators, composed of other operators.
#include "scaler.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/stack_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <limits>
#include <memory>
#include <torch/library.h>
#include <vector>

namespace tb::amp {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void check_one_element(const at::Tensor &tensor, at::ScalarType type, const char *operation, const char *name) {
  TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == type, operation, ": ", name,
              " should have one element of type ", type, ", but has ", tensor.numel(), " of type ",
              tensor.scalar_type(), ". Call it through torch.amp.GradScaler");
}

constexpr auto key = c10::DispatchKey::PrivateUse1;
constexpr const char *names[] = {"_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"};

bool is_float(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

// The operators below are called without autograd and autocast, which the dispatcher has handled for the caller.
struct PlainKernels {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

} // namespace

void unscale(at::TensorList gradients, at::Tensor &found_inf, const at::Tensor &inv_scale) {
  constexpr const char *operation = names[0];
  check_one_element(found_inf, at::kFloat, operation, "found_inf");
  check_one_element(inv_scale, at::kFloat, operation, "inv_scale");
  auto norm_type = at::kFloat;
  for (const at::Tensor &gradient : gradients) {
    TORCH_CHECK(gradient.is_floating_point(), operation, ": a gradient has type ", gradient.scalar_type(),
                ". Scale gradients of floating types only");
    if (gradient.scalar_type() == at::kDouble) norm_type = at::kDouble;
  }
  const PlainKernels plain;

  // Each factor has one dimension. Without dimensions, inv_scale would be cast to the type of a 16-bit gradient.
  const at::Tensor factor = inv_scale.view({1});
  std::vector<at::Tensor> largest;
  largest.reserve(gradients.size());
  for (const at::Tensor &gradient : gradients) {
    if (gradient.numel() == 0) continue;
    // The largest magnitude, in one pass over the gradient: NaN if there is a NaN, else infinity if there is one.
    largest.push_back(
        at::_ops::linalg_vector_norm::call(gradient, infinity, at::OptionalIntArrayRef(), false, norm_type));
    at::Tensor vector = gradient.dim() ? gradient : gradient.unsqueeze(0);
    vector.mul_(factor);
  }
  if (largest.empty()) return;
  const at::Tensor all_finite =
      (largest.size() == 1 ? largest[0] : at::_ops::stack::call(largest, 0)).lt(infinity).all();
  at::Tensor found = found_inf.view({1});
  at::_ops::maximum_out::call(found, all_finite.eq(0), found);
}

at::Tensor &update_scale(at::Tensor &scale, at::Tensor &growth_tracker, const at::Tensor &found_inf, double growth,
                         double backoff, int64_t growth_interval) {
  constexpr const char *operation = names[1];
  check_one_element(scale, at::kFloat, operation, "scale");
  check_one_element(growth_tracker, at::kInt, operation, "growth_tracker");
  check_one_element(found_inf, at::kFloat, operation, "found_inf");
  const PlainKernels plain;

  // PyTorch's kernels multiply in double. If float holds the factors, it gives the same result, also on devices without
  // double.
  const auto type = is_float(growth) && is_float(backoff) ? at::kFloat : at::kDouble;
  at::Tensor after = scale.view({1}), tracker = growth_tracker.view({1}); // the caller's shapes may differ
  const at::Tensor before = after.to(type);
  const at::Tensor shrink = found_inf.view({1}).ne(0);
  const at::Tensor steps = tracker.add(1);
  const at::Tensor counting = steps.ne(growth_interval).bitwise_and(shrink.eq(0));
  const at::Tensor fits = before.mul(growth).to(at::kFloat).lt(infinity);
  const at::Tensor grow = counting.eq(0).bitwise_and(shrink.eq(0)).bitwise_and(fits);
  const at::Tensor stay = shrink.eq(0).bitwise_and(grow.eq(0));
  // One of the three terms is 1 and the others are 0, so the sum is an exact selection and needs no further operator.
  const at::Tensor factor = shrink.to(type).mul(backoff).add(grow.to(type).mul(growth)).add(stay.to(type));
  at::_ops::mul_out::call(before, factor, after);
  at::_ops::mul_out::call(steps, counting, tracker);
  return scale;
}

namespace {
// Never destroyed at exit, because the dispatcher may be destroyed first.
std::unique_ptr<torch::Library> &library() {
  static auto &one = *new std::unique_ptr<torch::Library>;
  return one;
}
} // namespace

void register_scaler() {
  const auto missing = [](const char *name) {
    const auto found = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""});
    return !found || !found->hasKernelForDispatchKey(key);
  };
  if (!library()) library() = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  if (missing(names[0])) library()->impl(names[0], TORCH_FN(unscale));
  if (missing(names[1])) library()->impl(names[1], TORCH_FN(update_scale));
}

void withdraw_scaler() { library().reset(); }

} // namespace tb::amp
