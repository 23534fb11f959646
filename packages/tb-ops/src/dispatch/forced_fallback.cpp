// Registers the CPU's kernel in place of the device's.
#include "dispatch/forced_fallback.h"

#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "dispatch/fallback.h"
#include "dispatch/replacing_kernels.h"
#include "runtime/format.h"

namespace tb::ops {
namespace {

struct Force {
  std::unique_ptr<torch::Library> library; // its destructor restores the earlier kernel
  size_t holders = 0;
};
std::mutex forces_lock;
std::map<std::string, Force> forces;

} // namespace

void force_fallback(const std::string &name, const std::string &overload) {
  const std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema({name, overload}); // also null for a name without a schema
  TORCH_CHECK_VALUE(op, "force_fallback: there is no operator ", name, overload.empty() ? "" : ".", overload);
  const bool composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                        (!op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
                         op->hasKernelForDispatchKey(c10::DispatchKey::AutogradPrivateUse1)); // tb-ops' own kernel
  TORCH_CHECK_NOT_IMPLEMENTED(!composed, "force_fallback: ", name_of(*op),
                              " has no kernel that could be passed by: it is composed of other operators. Force those");
  TORCH_CHECK_NOT_IMPLEMENTED(op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
                              "force_fallback: ", name_of(*op), " has no kernel on the CPU that could run instead");
  for (const c10::Argument &argument : op->schema().arguments())
    TORCH_CHECK_NOT_IMPLEMENTED(argument.type()->kind() != c10::TypeKind::StorageType, "force_fallback: ", name_of(*op),
                                " takes a storage, which has no alias on the CPU");
  const std::lock_guard guard(forces_lock);
  Force &force = forces[name_of(*op)];
  if (force.holders++ > 0) return;
  const ReplacingKernels replacing;
  force.library = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, name.find("::")),
                                                   c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  force.library->impl(name_of(*op).c_str(), torch::CppFunction::makeFromBoxedFunction<&forced_fallback>());
}

void release_fallback(const std::string &name, const std::string &overload) {
  const std::lock_guard guard(forces_lock);
  const auto found = forces.find(overload.empty() ? name : name + "." + overload);
  if (found != forces.end() && --found->second.holders == 0) forces.erase(found);
}

bool is_forced(const char *name) {
  const std::lock_guard guard(forces_lock);
  return forces.contains(name);
}

std::vector<std::string> forced_fallbacks() {
  const std::lock_guard guard(forces_lock);
  std::vector<std::string> out;
  for (const auto &[name, force] : forces) out.push_back(name);
  return out;
}

} // namespace tb::ops
