// Compilers of device kernels. They turn source text into an image for the driver's module_load.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/jit/compiler/source.h"

namespace tb::ops::jit {

class Compiler {
public:
  virtual ~Compiler() = default;
  // Names everything but the source that changes the image: compiler, version, target and options. It is part of the
  // cache's key.
  virtual std::string identity() const = 0;
  // The shim that the sources for this compiler have.
  virtual const Shim &shim() const = 0;
  // Returns the image. Throws c10::Error with the compiler's messages. Any thread may call this.
  virtual std::string compile(const Source &source) const = 0;
};

// The shim that the user (TB_KERNEL_SHIM) or a vendor's table names.
std::optional<Shim> declared_shim();

// Makes a compiler that calls NVRTC for the architecture ("sm_90"). Throws if no usable libnvrtc is found.
std::unique_ptr<Compiler> make_nvrtc_compiler(const std::string &architecture);
// Makes a compiler that runs the host's C++ compiler: TB_HOST_COMPILER (a command with arguments), or c++, g++ or
// clang++ from PATH. Throws if there is none.
std::unique_ptr<Compiler> make_host_compiler();
// Splits a command at its spaces.
std::vector<std::string> command_words(const std::string &command);
// Makes a compiler that runs a command with `-o IMAGE SOURCE`. Throws if there is no such program. `owner` names who
// gave the command; `identity` is a part of the compiler's.
std::unique_ptr<Compiler> make_command_compiler(const std::string &owner, std::vector<std::string> command,
                                                const std::string &identity, Shim shim);

// Makes the compiler for a device. TB_KERNEL_COMPILER=nvrtc or =host chooses one. If it is unset, the compiler of a
// vendor's table (tb/kernels.h) serves; else NVRTC for the architectures "sm_...", and the host's compiler for the
// host's own architecture ("x86-64"). Throws c10::Error for any other.
std::unique_ptr<Compiler> make_compiler(int32_t device, const std::string &architecture);
// Returns why no compiler is known for the architecture, and what to do; an empty string if one is. Does not check that
// the compiler is installed.
std::string compiler_obstacle(const std::string &architecture);

} // namespace tb::ops::jit
