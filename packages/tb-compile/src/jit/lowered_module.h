// A TorchScript module that is lowered to the device: saved as bytes with debug handles, and loaded again.
#pragma once
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/backends/backend_debug_handler.h>
#include <torch/csrc/jit/backends/backend_preprocess.h>

#include <string>
#include <vector>

namespace tb::compile::jit {

using Spec = c10::Dict<c10::IValue, c10::IValue>;

// The methods of a compile spec such as {"forward": {"device": "tb:0"}}.
std::vector<std::string> methods_of(const Spec &spec);

// Returns a tuple of the format's number, the module's bytes, and a debug handle for each node of each method. It
// contains nothing of a device, so it may be saved.
c10::IValue preprocess(const torch::jit::Module &module, const Spec &spec,
                       const torch::jit::BackendDebugHandleGenerator &handles);

struct Loaded {
  torch::jit::Module module;
  c10::impl::GenericDict handles; // debug handles of the nodes, by the method's name
};
// Loads what preprocess() returned onto `device`, with its methods inlined. ValueError: another format.
Loaded load(const c10::IValue &processed, const std::vector<std::string> &methods, c10::Device device);

// The nodes that have a debug handle, in their order: all except constants, which printing and parsing move.
std::vector<torch::jit::Node *> nodes_of(torch::jit::Block &block);

} // namespace tb::compile::jit
