// Decides whether the vendor's library serves the driver, and registers its operators.
#include "backends/aclnn/aclnn.h"

#include "backends/aclnn/operands.h"
#include "custom/custom.h"

#include <ATen/MemoryOverlap.h>

#include <string_view>

namespace tb::ops::aclnn {
namespace {

State found;

int32_t copy_on_device(const void *source, const void *target) {
  const Tensor &from = *static_cast<const Tensor *>(source), &to = *static_cast<const Tensor *>(target);
  if (!fits({&from, &to})) return 0;
  if (to.numel() > 0) run("aten::copy_", function<"InplaceCopy">(), device_number(to), InPlace{to}, Input{from});
  return 1;
}

int32_t serves(const tb_driver_api *driver, tb_driver *) {
  const uint64_t needed = TB_GROUP_ASYNC | TB_GROUP_NATIVE;
  if (runtime.closures || (driver->groups & needed) != needed) return 0;
  found.ascend = std::string_view(device_info(0).name).starts_with("Ascend");
  return found.ascend && !library().path.empty();
}

void install(const tb_operator_libraries *libraries) {
  Registrar registrar(*static_cast<torch::Library *>(libraries->aten));
  register_table(registrar);
  register_composed(registrar);
  if (function<"InplaceCopy">().found()) libraries->set_element_copy(&copy_on_device);
  found.operators = registrar.count();
  found.missing = registrar.missing();
}

} // namespace

const tb_operator_backend backend{sizeof backend,
                                  torch_major,
                                  torch_minor,
                                  0,
                                  "aclnn",
                                  "operators of the vendor's library in two phases",
                                  "the groups ASYNC and NATIVE, devices named Ascend, and the vendor's library",
                                  "host_copy",
                                  &serves,
                                  &install};

const State &state() { return found; }

} // namespace tb::ops::aclnn
