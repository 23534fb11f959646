// Reads the arguments of a call and launches it.
#include "tb/tensor_caster.h"

#include "code/generated_kernel.h"

#include <array>
#include <bit>

#include "device/components.h"
#include "step/observation.h"

namespace nb = nanobind;

namespace tb::compile {

GeneratedKernel::GeneratedKernel(std::string name, std::string text, const std::string &arguments,
                                 const std::vector<std::string> &types, bool synchronizing) {
  uint32_t pointers = 0;
  for (const std::string &type : types) {
    TORCH_CHECK_VALUE(type == "pointer" || type == "integer" || type == "float", "'", type,
                      "' is no type of an argument: pointer, integer or float");
    TORCH_CHECK_VALUE(type != "pointer" || pointers == types_.size(), name, ": the pointers come first");
    pointers += type == "pointer" ? 1 : 0;
    types_.push_back(type == "pointer" ? Type::pointer : type == "integer" ? Type::integer : Type::real);
  }
  TORCH_CHECK_VALUE(types.size() <= TB_GENERATED_KERNEL_ARGUMENTS, name, " has ", types.size(),
                    " arguments, and a kernel ", "takes ", TB_GENERATED_KERNEL_ARGUMENTS,
                    ": compute less in one kernel");
  // Never freed: the loaded kernel belongs to it, and queued work may outlive everything except the driver.
  struct Texts {
    std::string name, arguments, text;
  };
  const auto *kept = new Texts{std::move(name), arguments, std::move(text)};
  constexpr uint32_t threads = 256; // the most that across_block combines
  kernel_ = new tb_generated_kernel{sizeof(tb_generated_kernel), threads,
                                    synchronizing ? 1u : 0u,     pointers,
                                    kept->name.c_str(),          kept->arguments.c_str(),
                                    kept->text.c_str(),          nullptr};
}

void GeneratedKernel::load(int32_t device) const { components.ops.load_generated(kernel_, device); }

void GeneratedKernel::call(nb::args arguments) const {
  const size_t count = types_.size();
  TORCH_CHECK(arguments.size() == count + 2, kernel_->name, ": ", count + 2, " arguments, but got ", arguments.size());
  std::array<uint64_t, TB_GENERATED_KERNEL_ARGUMENTS> values;
  for (size_t i = 0; i < count; i++) {
    const nb::handle given = arguments[i];
    if (types_[i] == Type::pointer) {
      TORCH_CHECK_TYPE(tensor_check(given.ptr()), kernel_->name, ": argument ", i, " is no tensor");
      const at::Tensor &tensor = tensor_unpack(given.ptr());
      values[i] = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
      note_use(tensor);
    } else if (types_[i] == Type::integer) {
      values[i] = static_cast<uint64_t>(nb::cast<int64_t>(given));
    } else {
      values[i] = std::bit_cast<uint64_t>(nb::cast<double>(given));
    }
  }
  const auto items = nb::cast<int64_t>(arguments[count]);
  components.ops.launch_generated(kernel_, nb::cast<int32_t>(arguments[count + 1]), items, values.data(), count);
}

} // namespace tb::compile
