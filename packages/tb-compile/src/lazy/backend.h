// PyTorch's lazy backend interface (torch::lazy::BackendImplInterface) for the device of PrivateUse1. TorchScript's
// backend does what is independent of the device: tracing and lowering.
#pragma once
#include <torch/csrc/lazy/backend/backend_interface.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tb::compile::lazy {

// Counts of all lazy graphs of the process. nanoseconds: processor time of the threads that executed them.
struct Counts {
  std::atomic<int64_t> compilations{0}, instructions{0}, executions{0}, nanoseconds{0};
};
Counts &counts();

class Backend final : public torch::lazy::BackendImplInterface {
public:
  void PrepareToExit() const override {}

  // Seeds every device's generator, from which lazy tensors draw.
  void SetRngSeed(size_t seed) const override;

  const torch::lazy::IrBuilder *GetIrBuilder() const override;
  std::unique_ptr<torch::lazy::LoweringContext>
  CreateLoweringContext(const std::string &name, torch::lazy::BackendDevice device,
                        c10::ArrayRef<const torch::lazy::Node *> post_order,
                        torch::lazy::Util::EmissionMap emit_status) const override;
  std::unique_ptr<torch::lazy::LoweringContext> CreateLoweringContext(const std::string &name,
                                                                      torch::lazy::BackendDevice device) const override;

  torch::lazy::BackendDataPtr MakeComputationDataFromTensor(const at::Tensor &tensor, const torch::lazy::Shape &shape,
                                                            const torch::lazy::BackendDevice &device) const override;
  torch::lazy::BackendDataPtr MakeComputationDataFromScalar(const at::Scalar &scalar,
                                                            const torch::lazy::BackendDevice &device) const override;
  torch::lazy::BackendDataPtr CreateDataPlaceholder(const torch::lazy::BackendDevice &device,
                                                    const torch::lazy::Shape &shape) const override;
  torch::lazy::BackendDataPtr GetComputationDataFromNode(const torch::lazy::Node *node) const override;
  at::Tensor MakeTensorFromComputationData(const torch::lazy::BackendDataPtr data,
                                           std::optional<at::ScalarType> logical_scalar_type) const override;

  std::vector<std::string> GetCompilationDevices(const std::string &device,
                                                 c10::ArrayRef<std::string> devices) const override;
  std::vector<torch::lazy::ComputationPtr> Compile(std::vector<torch::lazy::ComputationPtr> instances) const override;
  // Queues the work on the current streams of the calling thread and waits for nothing.
  std::vector<torch::lazy::BackendDataPtr> ExecuteComputation(torch::lazy::ComputationPtr computation,
                                                              c10::ArrayRef<torch::lazy::BackendDataPtr> arguments,
                                                              const torch::lazy::BackendDevice &device) const override;
  std::string GetComputationBackendText(const torch::lazy::ComputationPtr computation) const override;

  std::shared_ptr<torch::lazy::BackendDeviceType> GetDefaultDeviceType() const override;
  void SetDefaultDeviceType(int8_t type) override;
  int64_t GetDefaultDeviceOrdinal() const override { return ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override;
  at::DeviceType EagerFallbackDeviceType() const override;
  std::vector<torch::lazy::BackendDevice> GetBackendDevices() const override;
  torch::lazy::BackendDevice GetBackendDevice(c10::Device device) const override;

  // Devices, seed, counts and memory, for torch._lazy.metrics.metrics_report().
  std::string CreateMetricReport() const override;

private:
  std::atomic<int64_t> ordinal_{0};
  mutable std::atomic<uint64_t> seed_{0};
};

// The backend of the process; never destroyed.
Backend &backend();

} // namespace tb::compile::lazy
