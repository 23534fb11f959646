// Chooses the compiler for a device.
#include "backends/jit/compiler/compiler.h"

#include <c10/util/Exception.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tb::ops::jit {
namespace {

std::string folder;

std::string asked() {
  const char *value = std::getenv("TB_KERNEL_COMPILER");
  const std::string given = value ? value : "";
  TORCH_CHECK(given.empty() || given == "nvrtc" || given == "host", "TB_KERNEL_COMPILER=", given,
              " is neither nvrtc nor host. Unset it, and the device's architecture decides");
  return given;
}

std::string chosen(const std::string &architecture) {
  if (const std::string given = asked(); !given.empty()) return given;
  if (architecture.starts_with("sm_")) return "nvrtc";
  utsname machine{};
  if (uname(&machine) != 0) return "";
  std::string own = machine.machine;
  std::replace(own.begin(), own.end(), '_', '-'); // the drivers write "x86-64"
  if (architecture == own || architecture == machine.machine) return "host";
  return "";
}

} // namespace

void set_header_folder(std::string given) { folder = std::move(given); }
const std::string &header_folder() { return folder; }

bool compiles_for(const std::string &architecture) { return !chosen(architecture).empty(); }

std::unique_ptr<Compiler> make_compiler(const std::string &architecture) {
  const std::string name = chosen(architecture);
  TORCH_CHECK(
      !name.empty(), "tb-ops has no compiler for devices of architecture '", architecture,
      "': it knows sm_... (NVRTC) and the host's own. TB_KERNEL_COMPILER=nvrtc or host chooses one all the same");
  return name == "nvrtc" ? make_nvrtc_compiler(architecture) : make_host_compiler();
}

} // namespace tb::ops::jit
