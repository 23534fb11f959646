// Facts of devices, asked once.
#include "backends/jit/device_facts.h"

#include <array>
#include <atomic>
#include <limits>

#include "runtime/runtime.h"

namespace tb::ops::jit {
namespace {

constexpr uint32_t asked = 1u << 31; // no bit of TB_LACKS_*
std::array<std::atomic<uint32_t>, std::numeric_limits<c10::DeviceIndex>::max() + 1> device_bits;

uint32_t bits_of(c10::DeviceIndex device) {
  std::atomic<uint32_t> &place = device_bits[static_cast<size_t>(device)];
  if (const uint32_t bits = place.load(std::memory_order_relaxed)) return bits & ~asked;
  const uint32_t lacks = device_info(device).lacks;
  place.store(lacks | asked, std::memory_order_relaxed);
  return lacks;
}

} // namespace

std::string kernel_defines(const DeviceFacts &facts) {
  return std::string(facts.float64 ? "" : "#define TB_NO_FLOAT64\n") + (facts.fma ? "" : "#define TB_NO_FMA\n");
}

DeviceFacts facts_of(c10::DeviceIndex device) {
  const uint32_t bits = device < 0 ? 0 : bits_of(device);
  return {!(bits & TB_LACKS_FLOAT64), !(bits & TB_LACKS_ATOMIC64), !(bits & TB_LACKS_FLOAT_ATOMICS),
          !(bits & TB_LACKS_FMA)};
}

} // namespace tb::ops::jit
