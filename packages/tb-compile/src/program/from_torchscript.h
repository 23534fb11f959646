// Makes programs of TorchScript's graphs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/jit/ir/ir.h>

#include "program/program.h"

namespace tb::compile {

// The program has one instruction for each node that is not a constant, in their order, and the graph's outputs. Throws
// NotImplementedError if the graph is not a straight line: control flow, calls of methods, attributes.
std::unique_ptr<Program> from_torchscript(const torch::jit::Graph &graph, std::string name);

// The program of a graph without writes. The copies that functionalization made of views become views again; results
// that are views are copied at the end.
struct FunctionalProgram {
  std::unique_ptr<Program> program;
  // Inputs of the graph that it also reads as numbers. After its other inputs the program takes these numbers, or the
  // tensors again: a number that the host knows is not read from the device.
  std::vector<size_t> numbers;
};
FunctionalProgram from_functional(const torch::jit::Graph &graph, std::string name);

} // namespace tb::compile
