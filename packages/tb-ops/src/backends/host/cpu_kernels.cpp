// Reads TB_CPU_KERNELS.
#include "backends/host/cpu_kernels.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string_view>

namespace tb::ops::host {
namespace {

CpuKernels read() {
  const char *value = std::getenv("TB_CPU_KERNELS");
  const std::string_view text = value ? value : "";
  if (text.empty() || text == "verified") return CpuKernels::verified;
  if (text == "off") return CpuKernels::off;
  TORCH_CHECK(text == "on", "TB_CPU_KERNELS is '", text, "'. It must be off, verified or on.");
  return CpuKernels::on;
}

} // namespace

CpuKernels cpu_kernels() {
  static const CpuKernels chosen = read();
  return chosen;
}

} // namespace tb::ops::host
