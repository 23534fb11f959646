// Drivers whose host memory breaks a rule.
#include <cstring>

#include "contract/mutant.h"

namespace tb::contract::pinned_memory_mutants {
namespace {

// The given status as success.
tb_status forgiven(tb_status status, tb_status which) {
  return status == which ? static_cast<tb_status>(TB_OK) : status;
}

TB_MUTANT(register_overlap_accepted, "cpu", "mem_register_host.2", "PIN-06",
          "registering over a registered range is taken") {
  api.mem_register_host = [](tb_driver *self, int32_t device, void *ptr, uint64_t size, uint64_t flags) {
    return forgiven(real().mem_register_host(self, device, ptr, size, flags), TB_ALREADY_EXISTS);
  };
}

TB_MUTANT(unregister_clears, "cpu", "mem_unregister_host.1", "PIN-05", "unregistering writes into the memory") {
  api.mem_unregister_host = [](tb_driver *self, void *ptr) {
    const tb_status status = real().mem_unregister_host(self, ptr);
    if (status == TB_OK) std::memset(ptr, 0, 64);
    return status;
  };
}

TB_MUTANT(unregister_anything, "cpu", "mem_unregister_host.2", "PIN-08",
          "unregistering what is not registered is taken") {
  api.mem_unregister_host = [](tb_driver *self, void *ptr) {
    return forgiven(real().mem_unregister_host(self, ptr), TB_INVALID_ARGUMENT);
  };
}

TB_MUTANT(pinned_copy_waits, "cpu", "mem_alloc_host.2", "PIN-03", "a copy from host memory waits for the stream") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) {
    const tb_status status = real().mem_copy(self, device, stream, dst, src, size, kind);
    if (status != TB_OK || kind != TB_COPY_HOST_TO_DEVICE) return status;
    return real().stream_synchronize(self, stream);
  };
}

} // namespace
} // namespace tb::contract::pinned_memory_mutants
