// Compilers of device kernels. They turn source text into an image for the driver's module_load.
#pragma once
#include <memory>
#include <string>

namespace tb::ops::jit {

class Compiler {
public:
  virtual ~Compiler() = default;
  // Names everything but the source that changes the image: compiler, version, target and options. It is part of the
  // cache's key.
  virtual std::string identity() const = 0;
  // Returns the image. Throws c10::Error with the compiler's messages. Any thread may call this.
  virtual std::string compile(const std::string &source) const = 0;
};

// The folder where the kernels' headers are installed; the sources include them. Set once, before the first launch.
void set_header_folder(std::string folder);
const std::string &header_folder();

// Makes a compiler that calls NVRTC for the architecture ("sm_90"). Throws if no usable libnvrtc is found.
std::unique_ptr<Compiler> make_nvrtc_compiler(const std::string &architecture);
// Makes a compiler that runs the host's C++ compiler: TB_HOST_COMPILER (a command with arguments), or c++, g++ or
// clang++ from PATH. Throws if there is none.
std::unique_ptr<Compiler> make_host_compiler();

// Makes the compiler for a device's architecture. TB_KERNEL_COMPILER=nvrtc or =host chooses one. If it is unset, NVRTC
// compiles for the architectures "sm_...", and the host's compiler for the host's own architecture ("x86-64"). Throws
// c10::Error for any other.
std::unique_ptr<Compiler> make_compiler(const std::string &architecture);
// Whether make_compiler knows the architecture. Does not check that the compiler is installed.
bool compiles_for(const std::string &architecture);

} // namespace tb::ops::jit
