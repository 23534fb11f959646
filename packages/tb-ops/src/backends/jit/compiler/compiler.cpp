// Chooses the compiler for a device.
#include "backends/jit/compiler/compiler.h"

#include <c10/util/Exception.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/jit/compiler/table_compiler.h"

namespace tb::ops::jit {
namespace {

std::string asked() {
  const char *value = std::getenv("TB_KERNEL_COMPILER");
  const std::string given = value ? value : "";
  TORCH_CHECK(given.empty() || given == "nvrtc" || given == "host", "TB_KERNEL_COMPILER=", given,
              " is neither nvrtc nor host. Unset it, and the driver or the device's architecture decides");
  return given;
}

std::string chosen(const std::string &architecture) {
  if (const std::string given = asked(); !given.empty()) return given;
  if (find_table_with_compiler()) return "table";
  if (architecture.starts_with("sm_")) return "nvrtc";
  utsname machine{};
  if (uname(&machine) != 0) return "";
  std::string own = machine.machine;
  std::replace(own.begin(), own.end(), '_', '-'); // the drivers write "x86-64"
  if (architecture == own || architecture == machine.machine) return "host";
  return "";
}

} // namespace

std::optional<Shim> declared_shim() {
  if (const char *file = std::getenv("TB_KERNEL_SHIM"); file && *file) return read_shim(file, "TB_KERNEL_SHIM");
  return table_shim();
}

std::string compiler_obstacle(const std::string &architecture) {
  if (!chosen(architecture).empty()) return "";
  return "no compiler of tb-ops' kernels is known for the architecture '" + architecture +
         "', and no pack of images has it. The driver can name a compiler or a pack (tb/kernels.h); to try one out, "
         "set TB_KERNEL_COMPILER=host, TB_HOST_COMPILER and TB_KERNEL_SHIM, or TB_KERNEL_IMAGES";
}

std::unique_ptr<Compiler> make_compiler(int32_t device, const std::string &architecture) {
  const std::string name = chosen(architecture);
  TORCH_CHECK(!name.empty(), compiler_obstacle(architecture));
  if (name == "table") return make_table_compiler(*find_table_with_compiler(), device);
  return name == "nvrtc" ? make_nvrtc_compiler(architecture) : make_host_compiler();
}

} // namespace tb::ops::jit
