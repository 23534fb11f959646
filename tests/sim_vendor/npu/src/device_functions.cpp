// device_functions.cpp -- initialisation, devices, contexts and peers.
#include <cstdio>
#include <cstring>

#include "entry.h"
#include "functions.h"
#include "machine.h"

namespace sim {

Error aclInit(const char *) { return Machine::get().initialize(); }
Error aclFinalize() { return Machine::get().finalize(); }

Error aclrtGetDeviceCount(uint32_t *count) {
  if (!count) return fail(kParameter, "EE1040: count is NULL");
  *count = static_cast<uint32_t>(Machine::get().settings().devices);
  return kOk;
}

Error aclrtSetDevice(int32_t device) { return Machine::get().set_device(device); }
Error aclrtResetDevice(int32_t device) { return Machine::get().reset_device(device); }

Error aclrtGetDevice(int32_t *device) {
  *device = Machine::get().current()->device;
  return kOk;
}

Error aclrtGetCurrentContext(void **context) {
  *context = Machine::get().current();
  return kOk;
}

Error aclrtSetCurrentContext(void *context) { return Machine::get().set_current(context); }

Error aclrtSynchronizeDevice() {
  Error first = kOk;
  for (const auto &stream : Machine::get().streams_of_current())
    if (const Error error = stream->synchronize(); error && !first) first = error;
  return first;
}

const char *aclrtGetSocName() { return Machine::get().initialized() ? "Ascend910B2" : nullptr; }

Error aclrtGetDeviceInfo(uint32_t device, int32_t attribute, int64_t *value) {
  Machine &machine = Machine::get();
  if (!machine.valid_device(static_cast<int32_t>(device))) return fail(kDeviceId, "EE1007: no device %u", device);
  switch (attribute) {
  case 101: // AI cores
  case 102: // cube cores
    return *value = 24, kOk;
  case 201: // vector cores
    return *value = 48, kOk;
  case 301: // memory
    return *value = static_cast<int64_t>(machine.settings().memory), kOk;
  case 302: // L2 cache
    return *value = int64_t(192) << 20, kOk;
  }
  return fail(kParameter, "EE1041: unknown attribute %d", attribute);
}

Error aclrtDeviceGetUuid(int32_t device, char *uuid) {
  if (!Machine::get().valid_device(device)) return fail(kDeviceId, "EE1007: no device %d", device);
  std::memset(uuid, 0, 16);
  std::snprintf(uuid, 16, "simulated-npu-%d", device % 10);
  return kOk;
}

Error aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
  Machine &machine = Machine::get();
  if (!machine.valid_device(device) || !machine.valid_device(peer)) return fail(kDeviceId, "EE1007: no such device");
  *can = device != peer && machine.settings().peers;
  return kOk;
}

Error aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  Machine &machine = Machine::get();
  const int32_t device = machine.current()->device;
  if (!machine.valid_device(peer) || peer == device || flags) return fail(kParameter, "EE1042: no peer %d", peer);
  if (!machine.settings().peers) return fail(kUnsupported, "EE1043: no way from device %d to %d", device, peer);
  std::lock_guard lock(machine.peers_mutex);
  machine.peers.insert((int64_t(device) << 32) | peer);
  return kOk;
}

Error aclrtDeviceDisablePeerAccess(int32_t peer) {
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.peers_mutex);
  const bool was = machine.peers.erase((int64_t(machine.current()->device) << 32) | peer);
  return was ? kOk : fail(kParameter, "EE1044: access to device %d is not enabled", peer);
}

} // namespace sim
