// Seeds CPU generators.
#include "random/cpu_generator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace tb::ops {

PhiloxState reserve_cpu_generator(const std::optional<at::Generator> &given, c10::DeviceIndex device) {
  return reserve_counters(given, device, 4); // the smallest step every generator of this kind takes
}

at::Generator cpu_generator(const PhiloxState &philox) {
  const PhiloxState now = philox.now();
  return at::detail::createCPUGenerator(now.seed * 0x9E3779B97F4A7C15ull + now.offset);
}

} // namespace tb::ops
