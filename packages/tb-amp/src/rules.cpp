// Autocast rules, expanded from the AT_FORALL_ lists of ATen/autocast_mode.h. The only operator named here is the
// banned one, which PyTorch's lists do not contain.
#include "rules.h"

#include <ATen/autocast_mode.h>
#include <algorithm>

#include "tb/torch_versions.h"

// The lists use these names without at::.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

namespace tb::amp {
namespace {

constexpr auto key = c10::DispatchKey::AutocastPrivateUse1;

// Converts "conv_transpose2d, input", as the preprocessor writes it, to "conv_transpose2d.input".
Rule rule(const char *policy, std::string operation) {
  const size_t comma = operation.find(',');
  if (comma != std::string::npos) operation.replace(comma, operation.find_first_not_of(", ", comma) - comma, ".");
  return {policy, operation};
}

// PyTorch refuses the operator under autocast of CUDA, since neither its value nor its gradient is accurate in 16 bits.
void as_for_cuda(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::AutocastCUDA, *stack);
}

} // namespace

std::vector<Rule> rules() {
  std::vector<Rule> all;
#define TB_LOWER_PRECISION_FP(...) all.push_back(rule("lower_precision_fp", #__VA_ARGS__));
#define TB_FP32(...) all.push_back(rule("fp32", #__VA_ARGS__));
#define TB_FP32_SET_OPT_DTYPE(...) all.push_back(rule("fp32_set_opt_dtype", #__VA_ARGS__));
#define TB_FP32_APPEND_DTYPE(redispatch, name, signature, redispatch_signature, policy) all.push_back({#policy, name});
#define TB_PROMOTE(...) all.push_back(rule("promote", #__VA_ARGS__));
  AT_FORALL_LOWER_PRECISION_FP(TB_LOWER_PRECISION_FP)
  AT_FORALL_FP32(TB_FP32)
  TB_FP32_BESIDE_THE_LIST(TB_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TB_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(TB_FP32_APPEND_DTYPE)
  AT_FORALL_PROMOTE(TB_PROMOTE)
#undef TB_LOWER_PRECISION_FP
#undef TB_FP32
#undef TB_FP32_SET_OPT_DTYPE
#undef TB_FP32_APPEND_DTYPE
#undef TB_PROMOTE
  all.push_back({"banned", "binary_cross_entropy"});
  return all;
}

void check_no_rules() {
  for (const Rule &one : rules()) {
    const size_t dot = one.operation.find('.');
    const auto found = c10::Dispatcher::singleton().findSchema(
        {"aten::" + one.operation.substr(0, dot), dot == std::string::npos ? "" : one.operation.substr(dot + 1)});
    TORCH_CHECK(!found || !found->hasKernelForDispatchKey(key),
                "tb-amp cannot register its autocast rules: aten::", one.operation,
                " has one for PrivateUse1 devices already, from another package. Use one package a "
                "process that registers a PrivateUse1 backend");
  }
}

void register_rules() {
  // Never destroyed, because the dispatcher may be destroyed first at exit.
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) {
    auto *all = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    all->fallback(torch::CppFunction::makeFallthrough());
  }
  auto &m = *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__); // the macros use the name m
#define TB_LOWER_PRECISION_FP(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TB_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TB_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TB_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TB_LOWER_PRECISION_FP)
  AT_FORALL_FP32(TB_FP32)
  TB_FP32_BESIDE_THE_LIST(TB_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TB_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TB_PROMOTE)
  m.impl("binary_cross_entropy", torch::CppFunction::makeFromBoxedFunction<&as_for_cuda>());
}

} // namespace tb::amp
