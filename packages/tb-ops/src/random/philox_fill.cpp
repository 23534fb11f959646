// Fills tensors with numbers from tb-generator.
#include "random/philox_fill.h"

#include <ATen/ops/add_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/mul_ops.h>

#include <cmath>

#include "intraop/thread_policy.h"
#include "tensor/outputs.h"

namespace tb::ops {

int32_t generator_type(c10::ScalarType type) {
  switch (type) {
  case c10::kFloat:
    return TB_FLOAT32;
  case c10::kDouble:
    return TB_FLOAT64;
  case c10::kHalf:
    return TB_FLOAT16;
  case c10::kBFloat16:
    return TB_BFLOAT16;
  case c10::kLong:
    return TB_INT64;
  case c10::kInt:
    return TB_INT32;
  case c10::kShort:
    return TB_INT16;
  case c10::kChar:
    return TB_INT8;
  case c10::kByte:
    return TB_UINT8;
  case c10::kBool:
    return TB_BOOL;
  default:
    return 0;
  }
}

uint64_t default_range(c10::ScalarType type) {
  switch (type) {
  case c10::kBool:
    return 2;
  case c10::kByte:
    return 1ull << 8;
  case c10::kChar:
    return 1ull << 7;
  case c10::kShort:
    return 1ull << 15;
  case c10::kInt:
    return 1ull << 31;
  case c10::kUInt16:
    return 1ull << 16;
  case c10::kUInt32:
    return 1ull << 32;
  case c10::kHalf:
    return (1ull << 11) + 1;
  case c10::kBFloat16:
    return (1ull << 8) + 1;
  case c10::kFloat:
    return (1ull << 24) + 1;
  case c10::kDouble:
    return (1ull << 53) + 1;
  default:
    return 1ull << 63;
  }
}

namespace {

// Returns the type in which a tensor is filled. Integers that the generator does not know are filled as 64-bit integers
// and converted.
c10::ScalarType filled_as(c10::ScalarType type) {
  if (generator_type(type)) return type;
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(type, false), "random numbers of type ", type,
                              " are not offered on tb. Make them in another type and convert with .to().");
  return c10::kLong;
}

} // namespace

PhiloxState reserve(const std::optional<at::Generator> &given, c10::DeviceIndex device, int32_t kind,
                    c10::ScalarType type, int64_t count) {
  const uint64_t words =
      runtime.generator.words_needed(kind, generator_type(filled_as(type)), static_cast<uint64_t>(count));
  return reserve_counters(given, device, (words + 3) / 4);
}

void fill_tensor(at::Tensor &tensor, const RangeFill &fill) {
  if (tensor.numel() == 0) return;
  const c10::ScalarType type = filled_as(tensor.scalar_type());
  const bool direct = tensor.is_contiguous() && type == tensor.scalar_type();
  at::Tensor target =
      direct ? tensor
             : at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(tensor.sizes()), type, std::nullopt,
                                                   c10::Device(c10::kCPU), std::nullopt, std::nullopt);
  char *data = static_cast<char *>(target.mutable_data_ptr());
  const auto size = static_cast<int64_t>(target.element_size());
  intraop.loop(target.numel(), 2.5, [&](int64_t begin, int64_t end) {
    const tb_status status = fill(data + begin * size, generator_type(type), static_cast<uint64_t>(begin),
                                  static_cast<uint64_t>(end - begin));
    TORCH_CHECK(status == TB_OK, "tb-generator refused a fill with status ", static_cast<int>(status));
  });
  if (!direct) copy_result(tensor, target);
}

void fill_tensor(at::Tensor &tensor, const Distribution &distribution) {
  const auto fill = [&](const Distribution &finite) {
    fill_tensor(tensor, RangeFill([&](void *destination, int32_t type, uint64_t first, uint64_t count) {
                  return finite.fill(destination, type, first, count);
                }));
  };
  const double a = distribution.a, b = distribution.b;
  if (std::isfinite(a) && std::isfinite(b)) return fill(distribution);
  Distribution standard = distribution;
  const bool rate = distribution.kind == TB_FILL_EXPONENTIAL, log = distribution.kind == TB_FILL_LOG_NORMAL;
  standard.a = rate ? 1 : 0;
  standard.b = rate ? 0 : 1;
  fill(standard);
  if (rate) {
    at::_ops::div__Scalar::call(tensor, a);
    return;
  }
  if (log) at::_ops::log_::call(tensor);
  at::_ops::mul__Scalar::call(tensor, b);
  at::_ops::add__Scalar::call(tensor, a, 1);
  if (log) at::_ops::exp_::call(tensor);
}

tb_status Distribution::fill(void *destination, int32_t type, uint64_t first, uint64_t count) const {
  const tb_generator_table &table = runtime.generator;
  const PhiloxState now = philox.now();
  switch (kind) {
  case TB_FILL_UNIFORM:
    return table.uniform(destination, type, first, count, now.seed, now.offset, a, b);
  case TB_FILL_NORMAL:
    return table.normal(destination, type, first, count, now.seed, now.offset, a, b);
  case TB_FILL_BERNOULLI:
    return table.bernoulli(destination, type, first, count, now.seed, now.offset, a);
  case TB_FILL_EXPONENTIAL:
    return table.exponential(destination, type, first, count, now.seed, now.offset, a);
  case TB_FILL_INTEGERS:
    return table.integers(destination, type, first, count, now.seed, now.offset, from, range);
  case TB_FILL_CAUCHY:
    return table.cauchy(destination, type, first, count, now.seed, now.offset, a, b);
  case TB_FILL_LOG_NORMAL:
    return table.log_normal(destination, type, first, count, now.seed, now.offset, a, b);
  case TB_FILL_GEOMETRIC:
    return table.geometric(destination, type, first, count, now.seed, now.offset, a);
  default:
    return TB_INVALID_ARGUMENT;
  }
}

} // namespace tb::ops
