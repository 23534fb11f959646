// What a call must find so that the launch of a captured graph may take its place, asked at each call.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace tb {

// The modes of PyTorch that decide what a function's operators do.
struct Modes {
  bool grad, inference, autocast, deterministic;
  c10::ScalarType autocast_type;
  c10::DeviceIndex device; // the current one
  static Modes current();
  bool operator==(const Modes &) const = default;
};

class Conditions {
public:
  // arguments: of the captured call, all tensors. leaves and gradients: tensors with their gradients, None or a tensor.
  // entries: (dict, key, value) of numbers that the graph keeps; lists: (list, length). As they are now.
  Conditions(std::vector<at::Tensor> arguments, std::vector<at::Tensor> leaves, nanobind::list gradients,
             nanobind::list entries, nanobind::list lists);

  // Whether everything is as it was, without anything to be copied but the arguments.
  bool hold(nanobind::tuple arguments) const;
  // Copies the arguments to where the graph reads them, on the current stream.
  void copy_in(nanobind::tuple arguments) const;

private:
  struct Leaf {
    at::Tensor tensor;
    const void *address;
    at::Tensor gradient;
  };
  const std::vector<at::Tensor> arguments_;
  const Modes modes_;
  std::vector<Leaf> leaves_;
  const nanobind::list entries_, lists_;
};

} // namespace tb
