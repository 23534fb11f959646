// Reads the arguments of a call and queues it.
#include "tb/tensor_caster.h"

#include "code/kernel.h"

#include <cstring>

#include "device/components.h"
#include "step/observation.h"

namespace nb = nanobind;

namespace tb::compile {

HostKernel::HostKernel(uint64_t entry, std::string name, const std::vector<std::string> &types) {
  for (const std::string &type : types) {
    TORCH_CHECK_VALUE(type == "pointer" || type == "integer" || type == "float", "'", type,
                      "' is no type of an argument: pointer, integer or float");
    types_.push_back(type == "pointer" ? Type::pointer : type == "integer" ? Type::integer : Type::real);
  }
  // Never freed: queued work may outlive everything except the driver.
  const auto *kept = new std::string(std::move(name));
  code_ = new tb_code{sizeof(tb_code), 0, kept->c_str(), reinterpret_cast<Entry>(entry), nullptr};
}

void HostKernel::call(nb::args arguments) const {
  TORCH_CHECK(arguments.size() == types_.size() + 1, code_->name, ": ", types_.size() + 1, " arguments, but got ",
              arguments.size());
  // All arguments are read before storage in the queue is reserved, since reading one may throw.
  std::vector<void *> slots(types_.size());
  int64_t elements = 0;
  for (size_t i = 0; i < types_.size(); i++) {
    const nb::handle given = arguments[i];
    if (types_[i] == Type::pointer) {
      TORCH_CHECK_TYPE(tensor_check(given.ptr()), code_->name, ": argument ", i, " is no tensor");
      const at::Tensor &tensor = tensor_unpack(given.ptr());
      slots[i] = const_cast<void *>(tensor.const_data_ptr());
      note_use(tensor);
      elements += tensor.numel();
    } else if (types_[i] == Type::integer) {
      const int64_t number = nb::cast<int64_t>(given);
      std::memcpy(&slots[i], &number, sizeof number);
    } else {
      const double number = nb::cast<double>(given);
      std::memcpy(&slots[i], &number, sizeof number);
    }
  }
  const int32_t device = nb::cast<int32_t>(arguments[types_.size()]);
  TORCH_CHECK_NOT_IMPLEMENTED(open_driver().api->groups & TB_GROUP_CLOSURE, code_->name,
                              ": the driver runs no host code on its streams");
  components.ops.launch_code(code_, device, slots.data(), slots.size(), elements);
}

} // namespace tb::compile
