// The operators of Ascend's library aclnn, whose functions are called in two phases.
#pragma once
#include <torch/library.h>

#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace tb::ops::aclnn {

struct State {
  bool ascend = false; // the driver's devices are Ascend's
  size_t operators = 0;
  std::vector<std::string> missing; // "aten::exp.out: aclnnExp": operators whose function the library lacks
};

// Whether the driver's devices are Ascend's, and the library could be opened.
bool serves(const Runtime &runtime);
void install(torch::Library &aten, torch::Library &autograd);
const State &state();

} // namespace tb::ops::aclnn
