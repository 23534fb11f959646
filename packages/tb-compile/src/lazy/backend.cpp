// Runs lazy graphs as programs.
#include "lazy/backend.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/full.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/core/metrics.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>

#include <ctime>
#include <mutex>
#include <sstream>
#include <utility>

#include "device/device_type.h"
#include "lazy/data.h"
#include "program/from_torchscript.h"

namespace tb::compile::lazy {
namespace {

namespace ltc = torch::lazy;

ltc::BackendImplInterface &torchscript() { return *ltc::GetTSBackendImpl(); }

struct DeviceType final : ltc::BackendDeviceType {
  DeviceType() : BackendDeviceType(static_cast<int8_t>(device_type)) {}
  std::string toString() const override { return c10::DeviceTypeName(device_type, /*lower_case=*/true); }
};

// A TSComputation, because PyTorch's functions cast every computation to one.
struct Computation final : ltc::TSComputation {
  explicit Computation(const ltc::TSComputation &of)
      : TSComputation(of.graph()), lowered(from_functional(*of.graph(), "a lazy graph")) {
    in_mark_step = of.in_mark_step;
  }
  const FunctionalProgram lowered;
};

int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

c10::DeviceIndex device_count() { return c10::impl::getDeviceGuardImpl(device_type)->deviceCount(); }

} // namespace

Counts &counts() {
  static Counts counts;
  return counts;
}

Backend &backend() {
  static auto *backend = new Backend;
  return *backend;
}

// ---- independent of the device --------------------------------------------------------------------------------------

const ltc::IrBuilder *Backend::GetIrBuilder() const { return torchscript().GetIrBuilder(); }

std::unique_ptr<ltc::LoweringContext> Backend::CreateLoweringContext(const std::string &name, ltc::BackendDevice device,
                                                                     c10::ArrayRef<const ltc::Node *> post_order,
                                                                     ltc::Util::EmissionMap emit_status) const {
  return torchscript().CreateLoweringContext(name, device, post_order, emit_status);
}

std::unique_ptr<ltc::LoweringContext> Backend::CreateLoweringContext(const std::string &name,
                                                                     ltc::BackendDevice device) const {
  return torchscript().CreateLoweringContext(name, device);
}

ltc::BackendDataPtr Backend::CreateDataPlaceholder(const ltc::BackendDevice &device, const ltc::Shape &shape) const {
  return torchscript().CreateDataPlaceholder(device, shape);
}

ltc::BackendDataPtr Backend::GetComputationDataFromNode(const ltc::Node *node) const {
  return torchscript().GetComputationDataFromNode(node);
}

at::Tensor Backend::MakeTensorFromComputationData(const ltc::BackendDataPtr data,
                                                  std::optional<at::ScalarType> logical_scalar_type) const {
  return torchscript().MakeTensorFromComputationData(data, logical_scalar_type);
}

ltc::BackendDataPtr Backend::MakeComputationDataFromScalar(const at::Scalar &scalar,
                                                           const ltc::BackendDevice &device) const {
  return torchscript().MakeComputationDataFromScalar(scalar, device);
}

std::vector<std::string> Backend::GetCompilationDevices(const std::string &, c10::ArrayRef<std::string> devices) const {
  return devices.vec();
}

std::string Backend::GetComputationBackendText(const ltc::ComputationPtr computation) const {
  return computation->to_string();
}

// ---- data -----------------------------------------------------------------------------------------------------------

ltc::BackendDataPtr Backend::MakeComputationDataFromTensor(const at::Tensor &tensor, const ltc::Shape &,
                                                           const ltc::BackendDevice &device) const {
  const c10::Device place(device_type, static_cast<c10::DeviceIndex>(device.ordinal()));
  const at::TensorOptions options = tensor.options().device(place);
  if (tensor.dim() == 0 && tensor.is_cpu()) { // a kernel fills it: a copy from the host would wait
    const c10::Scalar number = tensor.item();
    return std::make_shared<Data>(at::full({}, number, options), device, number);
  }
  return std::make_shared<Data>(tensor.to(options, /*non_blocking=*/tensor.device().type() == device_type), device);
}

// ---- computations ---------------------------------------------------------------------------------------------------

std::vector<ltc::ComputationPtr> Backend::Compile(std::vector<ltc::ComputationPtr> instances) const {
  std::vector<ltc::ComputationPtr> compiled;
  for (const ltc::ComputationPtr &instance : instances) {
    const auto graph = std::dynamic_pointer_cast<ltc::TSComputation>(instance);
    TORCH_CHECK_VALUE(
        graph, "Compile got ", instance ? "a computation of another class" : "no computation",
        ", of which it has no graph: give it what Build() of a context of CreateLoweringContext() returns");
    auto computation = std::make_shared<Computation>(*graph);
    counts().compilations++;
    counts().instructions += static_cast<int64_t>(computation->lowered.program->instructions().size());
    compiled.push_back(std::move(computation));
  }
  return compiled;
}

std::vector<ltc::BackendDataPtr> Backend::ExecuteComputation(ltc::ComputationPtr computation,
                                                             c10::ArrayRef<ltc::BackendDataPtr> arguments,
                                                             const ltc::BackendDevice &device) const {
  const auto ours = std::dynamic_pointer_cast<Computation>(computation);
  TORCH_CHECK_VALUE(ours, "ExecuteComputation got ", computation ? "a computation" : "no computation",
                    computation ? " that was not compiled: give it what Compile() returns"
                                : ": give it one of Compile()");
  const size_t parameters = static_cast<size_t>(ours->parameters_size());
  TORCH_CHECK_VALUE(arguments.size() == parameters, "ExecuteComputation got ", arguments.size(),
                    " arguments for a computation of ", parameters, " parameters: give it one value for each");
  for (size_t i = 0; i < parameters; i++) {
    auto *data = dynamic_cast<ltc::TSData *>(arguments[i].get());
    TORCH_CHECK_VALUE(data && (data->scalar || data->data().defined()), "argument ", i, " of ExecuteComputation is ",
                      data ? "a placeholder without a value: run the computation that makes it, or Assign() one"
                      : arguments[i] ? "the data of another backend: make it with MakeComputationDataFromTensor()"
                                     : "missing: give it a value");
  }
  const c10::DeviceGuard guard(c10::Device(device_type, static_cast<c10::DeviceIndex>(device.ordinal())));
  const int64_t begin = thread_nanoseconds();
  counts().executions++;
  const auto value = [](const ltc::BackendDataPtr &argument, bool as_number) -> c10::IValue {
    auto &data = static_cast<ltc::TSData &>(*argument);
    if (data.scalar) return *data.scalar;
    const auto *known = as_number ? dynamic_cast<const Data *>(&data) : nullptr;
    if (known && known->number()) return *known->number();
    return data.data();
  };
  std::vector<c10::IValue> inputs;
  inputs.reserve(arguments.size() + ours->lowered.numbers.size());
  for (const ltc::BackendDataPtr &argument : arguments) inputs.push_back(value(argument, false));
  for (const size_t i : ours->lowered.numbers) inputs.push_back(value(arguments[i], true));
  std::vector<ltc::BackendDataPtr> results;
  for (const c10::IValue &result : ours->lowered.program->run(std::move(inputs)))
    results.push_back(std::make_shared<Data>(result.toTensor(), device));
  counts().nanoseconds += thread_nanoseconds() - begin;
  return results;
}

// ---- devices --------------------------------------------------------------------------------------------------------

std::shared_ptr<ltc::BackendDeviceType> Backend::GetDefaultDeviceType() const {
  static const std::shared_ptr<ltc::BackendDeviceType> type = std::make_shared<DeviceType>();
  return type;
}

void Backend::SetDefaultDeviceType(int8_t type) {
  TORCH_CHECK_VALUE(type == static_cast<int8_t>(device_type), "the lazy backend of ",
                    GetDefaultDeviceType()->toString(), " runs on no other type of device, but was given number ",
                    static_cast<int>(type));
}

void Backend::SetDefaultDeviceOrdinal(int64_t ordinal) {
  TORCH_CHECK_VALUE(ordinal >= 0 && ordinal < device_count(), "there is no device ", GetDefaultDeviceType()->toString(),
                    ":", ordinal, ", there are ", int(device_count()));
  ordinal_ = ordinal;
}

at::DeviceType Backend::EagerFallbackDeviceType() const { return device_type; }

std::vector<ltc::BackendDevice> Backend::GetBackendDevices() const {
  std::vector<ltc::BackendDevice> devices;
  for (c10::DeviceIndex i = 0; i < device_count(); i++)
    devices.push_back(GetBackendDevice(c10::Device(c10::DeviceType::Lazy, i)));
  return devices;
}

ltc::BackendDevice Backend::GetBackendDevice(c10::Device device) const {
  return ltc::BackendDevice(GetDefaultDeviceType(), device.has_index() ? device.index() : ordinal_.load());
}

void Backend::SetRngSeed(size_t seed) const {
  seed_ = seed;
  for (const ltc::BackendDevice &device : GetBackendDevices()) {
    auto generator =
        at::detail::getPrivateUse1Hooks().getDefaultGenerator(static_cast<c10::DeviceIndex>(device.ordinal()));
    {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_current_seed(seed);
    }
    ltc::LazyGraphExecutor::Get()->SetRngSeed(device, seed);
  }
}

std::string Backend::CreateMetricReport() const {
  std::ostringstream text;
  text << "Backend: " << GetDefaultDeviceType()->toString() << "\n  Devices: " << GetBackendDevices().size()
       << "\n  Seed: " << seed_ << "\n  Compilations: " << counts().compilations
       << "\n  Instructions: " << counts().instructions << "\n  Executions: " << counts().executions
       << "\n  Time: " << ltc::MetricFnTime(static_cast<double>(counts().nanoseconds)) << "\n";
  if (auto *allocator = dynamic_cast<c10::DeviceAllocator *>(c10::GetAllocator(device_type)))
    for (const ltc::BackendDevice &device : GetBackendDevices()) {
      const auto bytes = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device.ordinal())).allocated_bytes[0];
      text << "  Memory of " << device.toString() << ": " << ltc::MetricFnBytes(static_cast<double>(bytes.current))
           << ", at most " << ltc::MetricFnBytes(static_cast<double>(bytes.peak)) << "\n";
    }
  return text.str();
}

} // namespace tb::compile::lazy
