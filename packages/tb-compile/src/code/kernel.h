// Generated code as work of the device's streams: a call of a kernel is queued as a closure, and runs on the stream's
// worker, in order with everything else.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tb/operator_table.h"

namespace tb {

// A function compiled for the host, whose arguments lie in an array of 8 bytes each: extern "C" void entry(void **).
class HostKernel {
public:
  using Entry = void (*)(void **arguments);

  // name: for messages, it lives as long as the process. types: of the arguments, "pointer", "integer" or "float".
  HostKernel(uint64_t entry, std::string name, const std::vector<std::string> &types);

  // Tensors where pointers are, numbers elsewhere, and at last the number of the device. Queues the call on the current
  // stream of that device. NotImplementedError: the driver runs no host code on its streams.
  void call(nanobind::args arguments) const;

private:
  enum class Type : uint8_t { pointer, integer, real };
  tb_code *code_;
  std::vector<Type> types_;
};

} // namespace tb
