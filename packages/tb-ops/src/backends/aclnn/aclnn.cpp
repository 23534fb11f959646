// Decides whether the vendor's library serves the driver, and registers its operators.
#include "backends/aclnn/aclnn.h"

#include "backends/aclnn/operands.h"
#include "tensor/copy.h"

#include <ATen/MemoryOverlap.h>

#include <string_view>

namespace tb::ops::aclnn {
namespace {

State found;

bool copy_on_device(const Tensor &from, const Tensor &to) {
  if (!fits({&from, &to})) return false;
  if (to.numel() > 0) run("aten::copy_", function<"InplaceCopy">(), device_number(to), InPlace{to}, Input{from});
  return true;
}

} // namespace

bool serves(const Runtime &) {
  const uint64_t needed = TB_GROUP_ASYNC | TB_GROUP_NATIVE;
  if (runtime.closures || (runtime.driver->groups & needed) != needed) return false;
  tb_device_info info{};
  info.struct_size = sizeof info;
  check(runtime.device.device_info(0, &info), "device_get_info", 0);
  found.ascend = std::string_view(info.name).starts_with("Ascend");
  return found.ascend && !library().path.empty();
}

void install(torch::Library &aten, torch::Library &) {
  Registrar registrar(aten);
  register_table(registrar);
  register_composed(registrar);
  if (function<"InplaceCopy">().found()) set_element_copy(&copy_on_device);
  found.operators = registrar.count();
  found.missing = registrar.missing();
}

const State &state() { return found; }

} // namespace tb::ops::aclnn
