// Positions in the random sequence of a generator, also in captures (tb_stream.capture, torch.tb.graph).
//
// A random operator in a capture keeps its offset from the state that the generator has when the graph is launched. In
// front of each launch a closure records that state, and the generator advances by what the graph draws. So a launch
// continues the sequence as running the operators one by one would.
#pragma once
#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "runtime/runtime.h"

namespace tb::ops {

// The start of a reserved range of a generator's sequence, like PyTorch's PhiloxCudaState.
struct PhiloxState {
  uint64_t seed, offset;
  // In captured work this is the state at the launch of the graph, to which `offset` is added. PyTorch calls this part
  // of an offset extragraph, and `offset` then intragraph.
  std::shared_ptr<const PhiloxState> extragraph;

  // Returns the state of this run. Call it on the worker.
  PhiloxState now() const {
    return extragraph ? PhiloxState{extragraph->seed, extragraph->offset + offset, nullptr}
                      : PhiloxState{seed, offset, nullptr};
  }
};

// Reserves `counters` counters, of four words each, of the given generator or the device's default generator.
PhiloxState reserve_counters(const std::optional<at::Generator> &given, c10::DeviceIndex device, uint64_t counters);

// Makes tb-ops take part in tb-stream's captures, and registers the operator tb::reserve_random, by which torch-backend
// reserves numbers for kernels that are not tb-ops'. Called once.
void connect_captures();

} // namespace tb::ops
