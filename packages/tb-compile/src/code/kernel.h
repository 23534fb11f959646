// Generated code on streams: a call of a kernel is queued as a closure and runs on the stream's worker, in stream
// order.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tb/operator_table.h"

namespace tb::compile {

// A function compiled for the host: extern "C" void entry(void **), with an array of 8 bytes for each argument.
class HostKernel {
public:
  using Entry = void (*)(void **arguments);

  // name: for messages; it is kept until the process ends. types: of the arguments, "pointer", "integer" or "float".
  HostKernel(uint64_t entry, std::string name, const std::vector<std::string> &types);

  // Queues a call on the current stream of a device. arguments: tensors for pointers, numbers for the others, and at
  // last the number of the device. NotImplementedError: the driver runs no host code on its streams.
  void call(nanobind::args arguments) const;

private:
  enum class Type : uint8_t { pointer, integer, real };
  tb_code *code_;
  std::vector<Type> types_;
};

} // namespace tb::compile
