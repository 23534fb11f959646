// Positions in the random sequence of a generator, also in captures (tb_stream.capture, torch.tb.graph).
//
// A random operator in a capture keeps its offset from the state that the generator has when the graph is launched. In front
// of each launch a closure records that state, and the generator advances by what the graph draws. So a launch continues the
// sequence as running the operators one by one would.
#pragma once
#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "runtime/runtime.h"

namespace tb::ops {

// Where a reserved range of a generator's sequence starts, as PyTorch's PhiloxCudaState has it.
struct PhiloxState {
  uint64_t seed, offset;
  // For captured work: the state at the launch of its graph, to which `offset` is added. PyTorch calls that part of an offset
  // extragraph, and `offset` then intragraph.
  std::shared_ptr<const PhiloxState> extragraph;

  // On the worker: the state of this run.
  PhiloxState now() const {
    return extragraph ? PhiloxState{extragraph->seed, extragraph->offset + offset, nullptr}
                      : PhiloxState{seed, offset, nullptr};
  }
};

// Reserves `counters` of four words of the sequence of the given generator, or of the device's own.
PhiloxState reserve_counters(const std::optional<at::Generator> &given, c10::DeviceIndex device, uint64_t counters);

// Once: takes part in tb-stream's captures from now on.
void connect_captures();

} // namespace tb::ops
