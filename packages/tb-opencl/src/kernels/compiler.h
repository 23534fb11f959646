// The compilers of tb-ops' kernels, which are in CUDA's dialect of C++, to images for OpenCL.
#pragma once

#include <string>

namespace tb::opencl {

// What the table tb.kernels says of a compiler (tb_kernels.compiler_command, compiler_identity).
struct Compiler {
  std::string command; // empty: there is none
  std::string identity;
};

// Clang, which makes SPIR-V: the command `asked` (the driver's option "compiler"), or the clang of the package ziglang if
// that is installed beside this library.
Compiler find_spirv_compiler(const char *asked);

// LLVM 15's tools, which make bitcode of SPIR 1.2, if the system has them.
Compiler find_spir_compiler();

} // namespace tb::opencl
