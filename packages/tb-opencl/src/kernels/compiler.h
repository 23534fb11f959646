// The compilers of tb-ops' kernels, which are in CUDA's dialect of C++, to images for OpenCL.
#pragma once

#include <string>
#include <vector>

namespace tb::opencl {

struct Compiler {
  std::vector<std::string> command; // gets `SOURCE -o IMAGE` behind its words; empty: there is none
  std::string identity;             // for the keys of images

  // Compiles a file. Returns false with what the compiler says in `log`.
  bool compile(const std::string &source, const std::string &image, std::string *log) const;
};

// Clang, which makes SPIR-V: the command `asked` (the driver's option "compiler"), or the clang of the package ziglang if
// that is installed beside this library.
Compiler find_spirv_compiler(const char *asked);

// LLVM 15's tools, which make bitcode of SPIR 1.2, if the system has them.
Compiler find_spir_compiler();

} // namespace tb::opencl
