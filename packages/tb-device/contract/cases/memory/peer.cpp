// PEE: from device to device.
#include "contract/support/probe.h"

namespace tb::contract::peer_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_PEER;

bool can_access(Kit &kit, int32_t device, int32_t peer) {
  int32_t answer = -1;
  CHECK_OK(kit.api().peer_can_access(kit.self(), device, peer, &answer));
  CHECK(answer == 0 || answer == 1);
  return answer == 1;
}

// The first pair that may be enabled, or NotOffered.
std::pair<int32_t, int32_t> reachable(Kit &kit) {
  kit.need_devices(2);
  for (int32_t device = 0; device < kit.device_count(); ++device)
    for (int32_t peer = 0; peer < kit.device_count(); ++peer)
      if (device != peer && can_access(kit, device, peer)) return {device, peer};
  throw NotOffered("no device reaches another");
}

TB_CASE(PEE, 01, needs, "peer_can_access.1 peer_can_access.2", "every pair is answered, a device and itself with 0") {
  for (int32_t device = 0; device < kit.device_count(); ++device)
    for (int32_t peer = 0; peer < kit.device_count(); ++peer) {
      const bool answer = can_access(kit, device, peer);
      CHECK_EQUAL(answer, can_access(kit, device, peer)); // the same each time
      if (device == peer) CHECK(!answer);
    }
}

TB_CASE(PEE, 02, needs, "peer_enable.1 peer_disable.1", "enabling twice and disabling twice are reported") {
  auto [api, self] = driver_of(kit);
  const auto [device, peer] = reachable(kit);
  CHECK_STATUS(api.peer_disable(self, device, peer), TB_FAILED_PRECONDITION);
  for (int round = 0; round < 3; ++round) {
    CHECK_OK(api.peer_enable(self, device, peer));
    CHECK_STATUS(api.peer_enable(self, device, peer), TB_ALREADY_EXISTS);
    CHECK_OK(api.peer_disable(self, device, peer));
    CHECK_STATUS(api.peer_disable(self, device, peer), TB_FAILED_PRECONDITION);
  }
}

TB_CASE(PEE, 03, needs, "peer_enable.2", "enabling where there is no access is refused") {
  auto [api, self] = driver_of(kit);
  for (int32_t device = 0; device < kit.device_count(); ++device)
    for (int32_t peer = 0; peer < kit.device_count(); ++peer) {
      if (can_access(kit, device, peer)) continue; // never for a device and itself
      const tb_status status = api.peer_enable(self, device, peer);
      CHECK_STATUS(status, status == TB_UNSUPPORTED ? TB_UNSUPPORTED : TB_INVALID_ARGUMENT);
    }
}

// Each direction, on a stream of each of the two devices.
void check_copies(Kit &kit) {
  auto [api, self] = driver_of(kit);
  constexpr uint64_t block_bytes = 100003;
  for (const int32_t from_device : {0, 1})
    for (const int32_t stream_device : {0, 1}) {
      const int32_t to_device = 1 - from_device;
      Block from(kit, block_bytes, from_device), to(kit, block_bytes + 16, to_device);
      std::vector<uint8_t> bytes(block_bytes);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 3 + size_t(from_device));
      from.write(bytes);
      to.fill(0xcd);
      tb_stream *stream = kit.default_stream(stream_device);
      CHECK_OK(api.peer_copy(self, stream, to.data(), to_device, from.data(), from_device, block_bytes));
      kit.synchronize(stream);
      bytes.resize(block_bytes + 16, 0xcd); // and nothing beyond
      CHECK(to.read() == bytes);
    }
}

TB_CASE(PEE, 04, needs, "peer_copy.2 peer_copy.1", "peers copy without being enabled, both ways, on streams of both") {
  kit.need_devices(2);
  check_copies(kit);
}

TB_CASE(PEE, 05, needs, "peer_enable.1 peer_copy.1", "enabled peers copy too") {
  auto [api, self] = driver_of(kit);
  const auto [device, peer] = reachable(kit);
  CHECK_OK(api.peer_enable(self, device, peer));
  check_copies(kit);
  CHECK_OK(api.peer_disable(self, device, peer));
}

TB_CASE(PEE, 06, needs | TB_GROUP_ASYNC, "peer_copy.1 T5",
        "a copy between peers is queued, in the order of its stream") {
  auto [api, self] = driver_of(kit);
  kit.need_devices(2);
  Block from(kit, 4, 0), to(kit, 4, 1);
  from.fill(0);
  to.fill(0);
  Stream stream(kit, 0);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  set_word(kit, stream, from.data(), 6);
  CHECK_OK(api.peer_copy(self, stream, to.data(), 1, from.data(), 0, 4));
  set_word(kit, stream, from.data(), 7);
  CHECK(!rescue.opened());
  check_held(kit, stream);
  CHECK_EQUAL(read_word(kit, to.data(), 1), 0u);
  gate.open();
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, to.data(), 1), 6u);
}

TB_CASE(PEE, 07, needs | TB_GROUP_ASYNC, "peer_disable.2", "copies queued before access is disabled still complete") {
  auto [api, self] = driver_of(kit);
  const auto [device, peer] = reachable(kit);
  Block from(kit, 4, device), to(kit, 4, peer);
  from.fill(0);
  to.fill(0);
  Stream stream(kit, device);
  Gate gate(kit, stream);
  OpensLater opener(gate, soon); // disabling may wait for the copies
  CHECK_OK(api.peer_enable(self, device, peer));
  set_word(kit, stream, from.data(), 7, device);
  CHECK_OK(api.peer_copy(self, stream, to.data(), peer, from.data(), device, 4));
  CHECK_OK(api.peer_disable(self, device, peer));
  gate.open();
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, to.data(), peer), 7u);
}

} // namespace
} // namespace tb::contract::peer_cases
