// Generated kernels of devices with their own memory: sources, compiled by tb-ops and launched on the current stream.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tb/operator_table.h"

namespace tb::compile {

// A kernel in the language of tb-ops' device kernels.
class GeneratedKernel {
public:
  // name: of its function. text: the source, with a struct `arguments`. types: of the struct's fields, "pointer",
  // "integer" or "float", the pointers first. synchronizing: a block, not a thread, computes an item.
  GeneratedKernel(std::string name, std::string text, const std::string &arguments,
                  const std::vector<std::string> &types, bool synchronizing);

  // Compiles and loads it for a device. Throws with the kernel's name and the compiler's messages.
  void load(int32_t device) const;

  // Queues a call on the current stream of a device. arguments: tensors for pointers, numbers for the others, then the
  // number of items, and at last the number of the device.
  void call(nanobind::args arguments) const;

private:
  enum class Type : uint8_t { pointer, integer, real };
  tb_generated_kernel *kernel_;
  std::vector<Type> types_;
};

} // namespace tb::compile
