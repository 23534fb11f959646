// Running sums, products, extrema and logarithms of sums.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_cummax_helper_ops.h>
#include <ATen/ops/_cummin_helper_ops.h>
#include <ATen/ops/_logcumsumexp_ops.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumprod_ops.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/cumsum_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/rows.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

constexpr int64_t state_size = 16; // bytes of the largest scanner: a number and a place

// Runs a scanner of scan.cuh over a contiguous input. The outputs are contiguous; `places` may be undefined.
void scan(const char *scanner, const Tensor &input, int64_t dim, const Tensor &out, const Tensor &places) {
  if (input.numel() == 0) return;
  const Extents extents = extents_along(input, dim);
  const int64_t rows = extents.outer * extents.inner;
  const c10::DeviceIndex device = device_number(out);
  const char *type = type_name(input.scalar_type());
  const auto kernel = [&](const char *name, bool synchronizing) {
    const std::string body = std::string(name) + "<" + scanner + "<" + type + ">, " + type + ">";
    return Kernel{"scan.cuh", body, "ScanArguments", 256, synchronizing};
  };
  kernels::ScanArguments arguments{};
  arguments.outer = extents.outer, arguments.size = extents.size, arguments.inner = extents.inner;
  arguments.chunk = extents.size, arguments.chunks = 1;
  arguments.input = input.const_data_ptr(), arguments.output = out.mutable_data_ptr();
  if (places.defined()) arguments.places = static_cast<kernels::Long *>(places.mutable_data_ptr());
  // Threads of adjacent rows read adjacent elements if the rows are not along the last dimension.
  if (extents.size < 64 || (extents.inner > 1 && rows >= 4096))
    return launch_elements(device, kernel("scan_short", false), rows, arguments);
  constexpr int64_t least_chunk = 4096, most_chunks = 1024, enough_rows = 256;
  Tensor carries;
  if (rows < enough_rows && extents.size > 2 * least_chunk) {
    arguments.chunk = std::max(least_chunk, (extents.size + most_chunks - 1) / most_chunks);
    arguments.chunks = (extents.size + arguments.chunk - 1) / arguments.chunk;
    carries = empty({rows * arguments.chunks * state_size}, {}, c10::kByte, device);
    arguments.carries = carries.mutable_data_ptr();
    launch_rows(device, kernel("scan_chunks", true), rows * arguments.chunks, arguments);
    launch_rows(device, kernel("scan_carries", true), rows, arguments);
  }
  launch_rows(device, kernel("scan_long", true), rows * arguments.chunks, arguments);
}

template <class Op, class Meta, Name scanner>
Tensor &accumulate(const Tensor &self, int64_t dim, std::optional<c10::ScalarType> type, Tensor &out) {
  if (!supported({&self, &out}) || (type && !has_type(self.device().index(), *type)))
    return call_fallback<Op>(self, dim, type, out);
  Out<Meta> op(out);
  op.meta(self, dim, type);
  const Tensor input = contiguous(self.to(out.scalar_type()));
  with_contiguous(out, [&](const Tensor &to) { scan(scanner.value, input, dim, to, {}); });
  return out;
}

template <class Op, Name scanner> void extremum(const Tensor &self, Tensor &values, Tensor &places, int64_t dim) {
  if (!supported({&self, &values, &places})) return call_fallback<Op>(self, values, places, dim);
  const Tensor input = contiguous(self);
  with_contiguous(values, [&](const Tensor &to) {
    with_contiguous(places, [&](const Tensor &where) { scan(scanner.value, input, dim, to, where); });
  });
}

Tensor &logarithm_out(const Tensor &self, int64_t dim, Tensor &out) {
  if (!supported({&self, &out}) || !c10::isFloatingType(self.scalar_type()) || out.scalar_type() != self.scalar_type())
    return call_fallback<at::_ops::_logcumsumexp_out>(self, dim, out);
  common_device("aten::_logcumsumexp", {&self, &out});
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  const Tensor input = contiguous(self);
  with_contiguous(out, [&](const Tensor &to) { scan("RunningLogarithm", input, dim, to, {}); });
  return out;
}

Tensor logarithm(const Tensor &self, int64_t dim) {
  if (!supported({&self}) || !c10::isFloatingType(self.scalar_type()))
    return call_fallback<at::_ops::_logcumsumexp>(self, dim);
  Tensor out = empty(self.sizes(), {}, self.scalar_type(), device_number(self));
  return logarithm_out(self, dim, out);
}

} // namespace

void register_scans(torch::Library &aten) {
  using namespace at;
  aten.impl("cumsum.out", &accumulate<_ops::cumsum_out, meta::structured_cumsum, "RunningSum">);
  aten.impl("cumprod.out", &accumulate<_ops::cumprod_out, meta::structured_cumprod, "RunningProduct">);
  aten.impl("_cummax_helper", &extremum<_ops::_cummax_helper, "RunningMaximum">);
  aten.impl("_cummin_helper", &extremum<_ops::_cummin_helper, "RunningMinimum">);
  aten.impl("_logcumsumexp", &logarithm);
  aten.impl("_logcumsumexp.out", &logarithm_out);
}

} // namespace tb::ops::jit
