// Autocast rules for further operators: one boxed kernel per policy works for every signature.
#include "custom_rules.h"

#include <ATen/autocast_mode.h>
#include <algorithm>
#include <memory>
#include <torch/library.h>
#include <utility>

namespace tb::amp {
namespace {

using at::autocast::CastPolicy;

constexpr auto device = c10::DeviceType::PrivateUse1;
constexpr auto autocast_key = c10::DispatchKey::AutocastPrivateUse1;
constexpr std::pair<const char *, CastPolicy> policies[] = {{"lower_precision_fp", CastPolicy::lower_precision_fp},
                                                            {"fp32", CastPolicy::fp32},
                                                            {"promote", CastPolicy::promote}};

// Calls visit(tensor) for each tensor in an argument, single or in a list; visit may replace it.
template <class Visit> void each_tensor(c10::IValue &argument, const Visit &visit) {
  if (argument.isTensor()) {
    at::Tensor tensor = argument.toTensor();
    visit(tensor);
    argument = tensor;
  } else if (argument.isTensorList()) {
    std::vector<at::Tensor> tensors = argument.toTensorVector();
    for (at::Tensor &tensor : tensors) visit(tensor);
    argument = tensors;
  } else if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (std::optional<at::Tensor> tensor : argument.toOptionalTensorVector()) {
      if (tensor) visit(*tensor);
      tensors.push_back(std::move(tensor));
    }
    argument = tensors;
  }
}

class Cast final : public c10::OperatorKernel {
public:
  explicit Cast(CastPolicy policy) : policy_(policy) {}

  void operator()(const c10::OperatorHandle &operation, c10::DispatchKeySet, torch::jit::Stack *stack) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key);
    const size_t first = stack->size() - operation.schema().arguments().size();
    auto type =
        policy_ == CastPolicy::fp32 ? at::kFloat : at::autocast::get_lower_precision_fp_from_device_type(device);
    if (policy_ == CastPolicy::promote)
      for (size_t i = first; i < stack->size(); i++)
        each_tensor((*stack)[i], [&](at::Tensor &tensor) { type = at::autocast::prioritize(type, tensor, device); });
    for (size_t i = first; i < stack->size(); i++)
      each_tensor((*stack)[i], [&](at::Tensor &tensor) { tensor = at::autocast::cached_cast(type, tensor, device); });
    operation.callBoxed(stack);
  }

private:
  CastPolicy policy_;
};

struct Registered {
  std::string policy;
  std::unique_ptr<torch::Library> library; // registers while it lives
};

// The GIL guards it. Never destroyed, because the dispatcher may be destroyed first at exit.
std::map<std::string, Registered> &registered() {
  static auto &all = *new std::map<std::string, Registered>;
  return all;
}

} // namespace

void add_rule(const std::string &operation, const std::string &policy) {
  const auto *chosen =
      std::find_if(std::begin(policies), std::end(policies), [&](const auto &each) { return policy == each.first; });
  TORCH_CHECK_VALUE(chosen != std::end(policies), "add_rule(\"", operation, "\", \"", policy,
                    "\"): the policies for an operator of one's own are lower_precision_fp, fp32 and promote");
  const size_t colons = operation.find("::");
  TORCH_CHECK_VALUE(colons != std::string::npos, "add_rule(\"", operation,
                    "\"): name the operator with its library, \"mylib::", operation, "\"");
  const size_t dot = operation.find('.', colons);
  const auto found = c10::Dispatcher::singleton().findSchema(
      {operation.substr(0, dot), dot == std::string::npos ? "" : operation.substr(dot + 1)});
  TORCH_CHECK_VALUE(found, "add_rule(\"", operation,
                    "\"): there is no such operator. Define it first, and name its overload if it has one");
  TORCH_CHECK_VALUE(!found->hasKernelForDispatchKey(autocast_key), "add_rule(\"", operation,
                    "\"): it has a rule for PrivateUse1 devices already. Remove one of this function's with "
                    "remove_rule(); PyTorch's own cannot be exchanged");
  TORCH_CHECK_VALUE(!found->schema().is_mutable(), "add_rule(\"", operation,
                    "\"): it writes to an argument, and would write to the copy that a cast makes. Give the rule to an "
                    "operator that returns its result");
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, operation.substr(0, colons), autocast_key,
                                                  __FILE__, __LINE__);
  library->impl(operation.substr(colons + 2).c_str(),
                torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Cast>(chosen->second)));
  registered().emplace(operation, Registered{policy, std::move(library)});
}

void remove_rule(const std::string &operation) {
  TORCH_CHECK_VALUE(registered().erase(operation), "remove_rule(\"", operation,
                    "\"): add_rule() gave it none. Rules of PyTorch's lists stay");
}

std::map<std::string, std::string> custom_rules() {
  std::map<std::string, std::string> found;
  for (const auto &[operation, one] : registered()) found.emplace(operation, one.policy);
  return found;
}

} // namespace tb::amp
