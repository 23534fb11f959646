// Facts of devices, asked once.
#include "backends/jit/device_facts.h"

#include <array>
#include <atomic>
#include <limits>

#include "runtime/runtime.h"

namespace tb::ops::jit {
namespace {

// The bits of TB_LACKS_*, above them the size of vectors, and the highest bit if the driver was asked.
constexpr uint64_t asked = 1ull << 63;
std::array<std::atomic<uint64_t>, std::numeric_limits<c10::DeviceIndex>::max() + 1> device_bits;

uint64_t bits_of(c10::DeviceIndex device) {
  std::atomic<uint64_t> &place = device_bits[static_cast<size_t>(device)];
  if (const uint64_t bits = place.load(std::memory_order_relaxed)) return bits;
  const tb_device_info info = device_info(device);
  const uint64_t bits = asked | uint64_t{info.vector_size & 0x7FFFFFFFu} << 32 | info.lacks;
  place.store(bits, std::memory_order_relaxed);
  return bits;
}

} // namespace

std::string kernel_defines(const DeviceFacts &facts) {
  return std::string(facts.float64 ? "" : "#define TB_NO_FLOAT64\n") + (facts.fma ? "" : "#define TB_NO_FMA\n");
}

DeviceFacts facts_of(c10::DeviceIndex device) {
  const uint64_t bits = device < 0 ? 0 : bits_of(device);
  return {!(bits & TB_LACKS_FLOAT64), !(bits & TB_LACKS_ATOMIC64), !(bits & TB_LACKS_FLOAT_ATOMICS),
          !(bits & TB_LACKS_FMA), static_cast<int>((bits & ~asked) >> 32)};
}

} // namespace tb::ops::jit
