// Says which operators check on the host: those whose schema has an argument check_errors, and those listed here.
#include "dispatch/host_checks.h"

#include <algorithm>
#include <string_view>

#include "dispatch/redispatch.h"
#include "runtime/format.h"

namespace tb::ops {
namespace {

using Call = const NamedArguments &;

// Each row stands for all overloads of an operator. tests/ops/test_host_checks.py compares the list with what PyTorch's
// own kernels do.
struct Row {
  std::string_view operation;
  HostCheck check;
};
const Row rows[] = {
    // The kernels of these read whether LAPACK succeeded.
    {"aten::_linalg_eigh", {"", nullptr}},
    {"aten::_linalg_eigvals", {"", nullptr}},
    {"aten::_linalg_svd", {"", nullptr}},
    {"aten::cholesky", {"", nullptr}},
    {"aten::cholesky_inverse", {"", nullptr}},
    {"aten::linalg_eig", {"", nullptr}},
    {"aten::linalg_eigvals", {"", nullptr}},
    {"aten::linalg_lstsq", {"", nullptr}},
    {"aten::linalg_matrix_sqrth", {"", nullptr}},
    {"aten::linalg_polar", {"", nullptr}},
    // The kernel of this one checks the strides of the scales.
    {"aten::_scaled_mm_v2", {"", nullptr}},
    // These read lengths, indices, ranges or zero points.
    {"aten::_ctc_loss", {"with lengths in tensors", [](Call call) { return call["input_lengths"].isTensor(); }}},
    {"aten::fake_quantize_per_channel_affine_cachemask",
     {"with integer zero points",
      [](Call call) { return !c10::isFloatingType(call["zero_point"].toTensor().scalar_type()); }}},
    {"aten::histc",
     {"with equal min and max",
      [](Call call) { return call["min"].toScalar().toDouble() == call["max"].toScalar().toDouble(); }}},
    {"aten::histogram",
     {"with a number of bins and without a range",
      [](Call call) { return call["bins"].isInt() && call["range"].isNone(); }}},
    {"aten::_histogramdd_bin_edges", {"without a range", [](Call call) { return call["range"].isNone(); }}},
    {"aten::_histogramdd_from_bin_cts", {"without a range", [](Call call) { return call["range"].isNone(); }}},
    {"aten::searchsorted", {"with a sorter", [](Call call) { return !call["sorter"].isNone(); }}},
    {"aten::segment_reduce",
     {"with lengths and without unsafe=True",
      [](Call call) { return !call["lengths"].isNone() && !call["unsafe"].toBool(); }}},
};

constexpr HostCheck of_schema{"with check_errors=True", [](Call call) { return call["check_errors"].toBool(); }};

} // namespace

const c10::IValue &NamedArguments::operator[](const char *name) const {
  const std::optional<int> index = schema_.argumentIndexWithName(name);
  TORCH_INTERNAL_ASSERT(index, schema_.name(), " has no argument ", name);
  return values_[static_cast<size_t>(*index)];
}

std::optional<HostCheck> host_check(const c10::OperatorHandle &op) {
  if (op.schema().argumentIndexWithName("check_errors")) return of_schema;
  const auto *row = std::find_if(std::begin(rows), std::end(rows),
                                 [&](const Row &row) { return row.operation == op.operator_name().name; });
  return row == std::end(rows) ? std::nullopt : std::optional(row->check);
}

std::vector<std::pair<std::string, std::string>> checked_operators() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
    const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      continue;
    const std::optional<HostCheck> check = host_check(*op);
    if (check) out.emplace_back(name_of(*op), check->when);
  }
  return out;
}

void run_checked(const c10::OperatorHandle &op, torch::jit::Stack *stack) { redispatch_to_cpu(op, stack); }

} // namespace tb::ops
