// What lazy tensors hold: a tensor of the device, beside the number that it was made of where the host knows it.
#pragma once
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>

#include <optional>
#include <utility>

namespace tb::lazy {

class Data final : public torch::lazy::TSData {
public:
  Data(at::Tensor tensor, const torch::lazy::BackendDevice &device, std::optional<c10::Scalar> number = std::nullopt)
      : TSData(tensor, torch::lazy::Shape(tensor.scalar_type(), tensor.sizes()), device), number_(std::move(number)) {}

  // Graphs read numbers back from their inputs; this answers without a wait.
  const std::optional<c10::Scalar> &number() const { return number_; }

private:
  const std::optional<c10::Scalar> number_;
};

} // namespace tb::lazy
