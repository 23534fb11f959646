// Compiles and runs the methods of lowered modules.
#include "jit/delegate.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/backends/backend.h>
#include <torch/csrc/jit/backends/backend_exception.h>
#include <torch/csrc/jit/backends/backend_preprocess.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <map>
#include <utility>

#include "device/device_type.h"
#include "jit/lowered_module.h"
#include "program/from_torchscript.h"

namespace tb::compile::jit {
namespace {

std::string device_name() { return c10::DeviceTypeName(device_type, /*lower_case=*/true); }

// One method of a lowered module: a program, or TorchScript's interpreter if it has control flow.
class Method final : public torch::CustomClassHolder {
public:
  Method(const Loaded &loaded, std::string name, c10::Device device)
      : name_(std::move(name)), device_(device), self_(loaded.module._ivalue()) {
    const std::shared_ptr<torch::jit::Graph> graph = loaded.module.get_method(name_).graph();
    const std::vector<int64_t> handles = loaded.handles.at(name_).toIntVector();
    TORCH_INTERNAL_ASSERT(nodes_of(*graph->block()).size() == handles.size());
    try {
      program_ = from_torchscript(*graph, c10::str("method '", name_, "' of a module lowered to ", device_));
    } catch (const c10::NotImplementedError &) {
      code_ = std::make_unique<torch::jit::Code>(graph, c10::str(device_name(), ".", name_));
      return;
    }
    for (size_t i = 0; i < handles.size(); i++) program_->instructions()[i].debug_handle = handles[i];
    program_->set_on_error([](const Instruction &at, c10::Error &error) {
      throw c10::BackendRuntimeException({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                         c10::str(error.what_without_backtrace(), "\nin ", at.name, ", debug handle ",
                                                  at.debug_handle, ":\n", at.source),
                                         at.debug_handle);
    });
  }

  c10::IValue run(const c10::impl::GenericList &given) const {
    const c10::DeviceGuard guard(device_);
    std::vector<c10::IValue> inputs{self_};
    for (size_t i = 0; i < given.size(); i++) {
      c10::IValue value = given.get(i);
      TORCH_CHECK_VALUE(!value.isTensor() || value.toTensor().device() == device_ || value.toTensor().dim() == 0,
                        "method '", name_, "' was lowered to ", device_, ", but input ", i, " is on ",
                        value.toTensor().device(), ": move it there, or lower the module to that device");
      inputs.push_back(std::move(value));
    }
    if (program_) return program_->run(std::move(inputs)).at(0);
    torch::jit::Stack stack(inputs.begin(), inputs.end());
    torch::jit::InterpreterState(*code_).run(stack);
    return stack.at(0);
  }

private:
  const std::string name_;
  const c10::Device device_;
  const c10::IValue self_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<torch::jit::Code> code_;
};

// "tb:0" unless the method's spec says {"device": "tb:1"}.
c10::Device device_of(const std::string &method, const c10::IValue &spec) {
  std::string text = device_name() + ":0";
  if (spec.isGenericDict() && spec.toGenericDict().contains("device"))
    text = spec.toGenericDict().at("device").toStringRef();
  c10::Device device(text);
  TORCH_CHECK_VALUE(device.type() == device_type, "method '", method, "' cannot be lowered to ", text,
                    ": give a device ", "such as '", device_name(), ":0'");
  if (!device.has_index()) device.set_index(0);
  return device;
}

class Delegate final : public torch::jit::PyTorchBackendInterface {
public:
  bool is_available() override {
    return c10::impl::hasDeviceGuardImpl(device_type) && c10::impl::getDeviceGuardImpl(device_type)->deviceCount() > 0;
  }

  c10::impl::GenericDict compile(c10::IValue processed, c10::impl::GenericDict spec) override {
    torch::utils::device_lazy_init(device_type); // loading a module may be the first use of the device
    std::map<std::string, c10::Device> devices;  // a module is loaded once for each device
    for (const auto &entry : spec)
      devices.emplace(entry.key().toStringRef(), device_of(entry.key().toStringRef(), entry.value()));
    const std::vector<std::string> methods = methods_of(spec);
    std::map<c10::DeviceIndex, Loaded> loaded;
    c10::impl::GenericDict handles(c10::StringType::get(), c10::AnyType::get());
    for (const auto &[name, device] : devices) {
      auto found = loaded.find(device.index());
      if (found == loaded.end()) found = loaded.emplace(device.index(), load(processed, methods, device)).first;
      handles.insert(name, c10::IValue::make_capsule(c10::make_intrusive<Method>(found->second, name, device)));
    }
    return handles;
  }

  c10::impl::GenericList execute(c10::IValue handle, c10::impl::GenericList inputs) override {
    const c10::IValue result = c10::static_intrusive_pointer_cast<Method>(handle.toCapsule())->run(inputs);
    c10::impl::GenericList outputs(c10::AnyType::get());
    if (result.isTuple())
      for (const c10::IValue &value : result.toTupleRef().elements()) outputs.push_back(value);
    else
      outputs.push_back(result);
    return outputs;
  }
};

} // namespace

void register_delegate() {
  static const torch::jit::backend<Delegate> backend(device_name());
  static const torch::jit::backend_preprocess_register registered(device_name(), preprocess);
}

} // namespace tb::compile::jit
