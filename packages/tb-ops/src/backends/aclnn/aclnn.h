// The operators of Ascend's library aclnn, whose functions are called in two phases.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tb/operator_backend.h"

namespace tb::ops::aclnn {

struct State {
  bool ascend = false; // the driver's devices are Ascend's
  size_t operators = 0;
  std::vector<std::string> missing; // "aten::exp.out: aclnnExp": operators whose function the library lacks
};

// Serves devices of Ascend if the library could be opened.
extern const tb_operator_backend backend;
const State &state();

} // namespace tb::ops::aclnn
