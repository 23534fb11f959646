// Clang, which makes SPIR-V of tb-ops' kernels in CUDA's dialect.
#pragma once

#include <string>
#include <vector>

namespace tb::opencl {

struct Compiler {
  std::vector<std::string> command; // the program and the words that come before clang's own; empty: there is none
  std::string identity;             // for the keys of images

  // Compiles a file. Returns false with what the compiler says in `log`.
  bool compile(const std::string &source, const std::string &image, std::string *log) const;
};

// The compiler that `asked` names (the driver's option "compiler"), or the clang of the package ziglang if that is
// installed beside this library.
Compiler find_compiler(const char *asked);

} // namespace tb::opencl
