// Which devices get the vendor's operators in two phases, and what of them there is.
#pragma once
#include <torch/library.h>

#include <string>
#include <vector>

namespace tb::aclnn {

struct State {
  bool ascend = false; // the driver's devices are of the vendor whose library this is
  size_t operators = 0;
  std::vector<std::string> missing; // "aten::exp.out: aclnnExp": operators whose function the library lacks
};

// Whether the driver's devices are Ascend's, and the library could be opened.
bool available();
void register_all(torch::Library &aten);
const State &state();

} // namespace tb::aclnn
