// Compilers of device kernels: source text to an image that module_load takes.
#pragma once
#include <memory>
#include <string>

namespace tb::ops::jit {

class Compiler {
public:
  virtual ~Compiler() = default;
  // What changes the image besides the source: compiler, version, target, options. Part of the cache's key.
  virtual std::string identity() const = 0;
  // Throws c10::Error with the compiler's own messages. From any thread.
  virtual std::string compile(const std::string &source) const = 0;
};

// Where the kernels' headers are installed: what a source's #include lines find. Set once, before the first launch.
void set_header_folder(std::string folder);
const std::string &header_folder();

// NVRTC for the architecture ("sm_90"). Throws when no usable libnvrtc is found.
std::unique_ptr<Compiler> make_nvrtc_compiler(const std::string &architecture);
// The host's C++ compiler: TB_HOST_COMPILER (a command with arguments), or c++, g++, clang++ of PATH. Throws when there
// is none.
std::unique_ptr<Compiler> make_host_compiler();

// What a device's images are made by. TB_KERNEL_COMPILER=nvrtc|host decides; unset: NVRTC for the architectures "sm_...",
// the host's compiler where the architecture is the host's own ("x86-64"). Throws c10::Error for any other.
std::unique_ptr<Compiler> make_compiler(const std::string &architecture);
// Whether make_compiler knows the architecture; nothing is looked for.
bool compiles_for(const std::string &architecture);

} // namespace tb::ops::jit
