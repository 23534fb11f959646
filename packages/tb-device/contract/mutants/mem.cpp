// mem.cpp -- drivers whose device memory breaks a rule.
#include "mutant.h"

namespace tb::contract {

TB_MUTANT(alloc_misaligned, "cpu", "mem_alloc.1", "MEM-01", "pointers are 8 bytes off") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size + 8, flags, out);
    if (status == TB_OK) *out = static_cast<char *>(*out) + 8;
    return status;
  };
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    return real().mem_free(self, device, ptr ? static_cast<char *>(ptr) - 8 : nullptr);
  };
}

} // namespace tb::contract
