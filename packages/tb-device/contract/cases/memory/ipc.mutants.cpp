// Drivers whose sharing between processes breaks a rule.
#include <cstring>
#include <map>
#include <mutex>

#include "contract/mutant.h"

namespace tb::contract::ipc_mutants {
namespace {

tb_status ok() { return TB_OK; }

TB_MUTANT(import_copies, "cpu", "ipc_import_memory.1", "IPC-01", "an import gives a copy of the memory") {
  static std::mutex mutex;
  static std::map<void *, void *> copies; // and what was imported
  api.ipc_import_memory = [](tb_driver *self, int32_t device, const tb_ipc_handle *handle, void **out) {
    void *imported = nullptr, *copy = nullptr;
    if (const tb_status status = real().ipc_import_memory(self, device, handle, &imported)) return status;
    constexpr uint64_t block_bytes = 1 << 16; // what the case exports
    if (const tb_status status = real().mem_alloc(self, device, block_bytes, 0, &copy)) return status;
    std::memcpy(copy, imported, block_bytes);
    std::lock_guard lock(mutex);
    copies[copy] = imported;
    *out = copy;
    return ok();
  };
  api.ipc_close_memory = [](tb_driver *self, void *ptr) {
    std::lock_guard lock(mutex);
    const auto copy = copies.find(ptr);
    if (copy == copies.end()) return real().ipc_close_memory(self, ptr);
    real().ipc_close_memory(self, copy->second);
    copies.erase(copy);
    return real().mem_free(self, 0, ptr);
  };
}

TB_MUTANT(import_anything, "cpu", "ipc_import_memory.2", "IPC-06", "a forged handle is imported") {
  api.ipc_import_memory = [](tb_driver *self, int32_t device, const tb_ipc_handle *handle, void **out) {
    const tb_status status = real().ipc_import_memory(self, device, handle, out);
    return status == TB_OK ? status : real().mem_alloc(self, device, 4096, 0, out);
  };
}

TB_MUTANT(export_any_event, "cpu", "ipc_export_event.1", "IPC-07", "an event without the flag is exported") {
  api.ipc_export_event = [](tb_driver *self, tb_event *event, tb_ipc_handle *out) {
    const tb_status status = real().ipc_export_event(self, event, out);
    return status == TB_FAILED_PRECONDITION ? ok() : status;
  };
}

TB_MUTANT(imported_event_ready, "cpu", "ipc_import_event.1", "IPC-05", "an imported event is always complete") {
  api.ipc_import_event = [](tb_driver *self, int32_t device, const tb_ipc_handle *handle, tb_event **out) {
    tb_event *imported = nullptr;
    if (const tb_status status = real().ipc_import_event(self, device, handle, &imported)) return status;
    real().event_destroy(self, imported);
    return real().event_create(self, device, 0, out);
  };
}

} // namespace
} // namespace tb::contract::ipc_mutants
