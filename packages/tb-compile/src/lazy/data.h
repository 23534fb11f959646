// The data of a lazy tensor: a tensor of the device, and the number that it was made of if the host knows it.
#pragma once
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>

#include <optional>
#include <utility>

namespace tb::compile::lazy {

class Data final : public torch::lazy::TSData {
public:
  Data(at::Tensor tensor, const torch::lazy::BackendDevice &device, std::optional<c10::Scalar> number = std::nullopt)
      : TSData(tensor, torch::lazy::Shape(tensor.scalar_type(), tensor.sizes()), device), number_(std::move(number)) {}

  // A graph that reads a number from an input takes it from here without a wait.
  const std::optional<c10::Scalar> &number() const { return number_; }

private:
  const std::optional<c10::Scalar> number_;
};

} // namespace tb::compile::lazy
