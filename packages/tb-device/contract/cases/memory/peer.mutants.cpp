// Drivers whose peers break a rule.
#include "contract/mutant.h"

namespace tb::contract::peer_mutants {
namespace {

// The given status as success.
tb_status forgiven(tb_status status, tb_status which) {
  return status == which ? static_cast<tb_status>(TB_OK) : status;
}

TB_MUTANT(peer_of_itself, "cpu", "peer_can_access.2", "PEE-01", "a device is a peer of itself") {
  api.peer_can_access = [](tb_driver *self, int32_t device, int32_t peer, int32_t *out) {
    const tb_status status = real().peer_can_access(self, device, peer, out);
    if (status == TB_OK) *out = 1;
    return status;
  };
}

TB_MUTANT(peer_enable_twice, "cpu", "peer_enable.1", "PEE-02", "enabling twice is taken") {
  api.peer_enable = [](tb_driver *self, int32_t device, int32_t peer) {
    return forgiven(real().peer_enable(self, device, peer), TB_ALREADY_EXISTS);
  };
}

TB_MUTANT(peer_copy_needs_enable, "cpu", "peer_copy.2", "PEE-04", "peers copy only when enabled") {
  static bool enabled = false;
  enabled = false;
  api.peer_enable = [](tb_driver *self, int32_t device, int32_t peer) {
    enabled = true;
    return real().peer_enable(self, device, peer);
  };
  api.peer_copy = [](tb_driver *self, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                     int32_t src_device, uint64_t size) {
    return real().peer_copy(self, enabled ? stream : nullptr, dst, dst_device, src, src_device, size); // refused
  };
}

TB_MUTANT(peer_copy_out_of_order, "cpu", "peer_copy.1", "PEE-06", "copies between peers do not wait for their stream") {
  api.peer_copy = [](tb_driver *self, tb_stream *, void *dst, int32_t dst_device, const void *src, int32_t src_device,
                     uint64_t size) {
    tb_stream *other = nullptr;
    if (const tb_status status = real().stream_default(self, dst_device, &other)) return status;
    return real().peer_copy(self, other, dst, dst_device, src, src_device, size);
  };
}

} // namespace
} // namespace tb::contract::peer_mutants
