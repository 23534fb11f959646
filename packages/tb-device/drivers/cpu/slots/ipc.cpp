// The table's functions about sharing with other processes (IPC).
#include "drivers/cpu/driver.h"
#include "drivers/cpu/ipc/exports.h"

namespace tb::drivers::cpu::slots {

namespace {
tb_status check_handle(Driver &driver, const tb_ipc_handle *handle, const char *name) {
  if (const tb_status status = driver.require(handle, name)) return status;
  if (handle->struct_size >= sizeof *handle) return TB_OK;
  return fail(driver.host, TB_INVALID_ARGUMENT, "tb_ipc_handle.struct_size is %u, but its fields take %zu",
              handle->struct_size, sizeof *handle);
}
} // namespace

tb_status ipc_export_memory(tb_driver *self, void *pointer, tb_ipc_handle *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    if (const tb_status status = check_handle(driver, out, "out")) return status;
    return driver.memory.export_block(pointer, out);
  });
}

tb_status ipc_import_memory(tb_driver *self, int32_t number, const tb_ipc_handle *handle, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = check_handle(driver, handle, "handle")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    File file;
    uint64_t size = 0;
    if (const tb_status status = Exports::fetch(driver.host, *handle, Exports::Kind::memory, &file, &size))
      return status;
    return driver.memory.import_block(*device, file, size, out);
  });
}

tb_status ipc_close_memory(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    return driver.memory.close_import(pointer);
  });
}

tb_status ipc_export_event(tb_driver *self, tb_event *event, tb_ipc_handle *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(event, "event")) return status;
    if (const tb_status status = check_handle(driver, out, "out")) return status;
    const auto &shared = Event::of(event)->shared();
    if (!shared || Event::of(event)->imported())
      return fail(driver.host, TB_FAILED_PRECONDITION, "the event was %s",
                  shared ? "imported: the process that made it exports it"
                         : "made without TB_EVENT_IPC: create one with that flag");
    return shared->export_to(driver.exports, out);
  });
}

tb_status ipc_import_event(tb_driver *self, int32_t number, const tb_ipc_handle *handle, tb_event **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number)) return TB_OUT_OF_RANGE;
    if (const tb_status status = check_handle(driver, handle, "handle")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    File file;
    uint64_t size = 0;
    if (const tb_status status = Exports::fetch(driver.host, *handle, Exports::Kind::event, &file, &size))
      return status;
    std::shared_ptr<SharedEvent> shared;
    if (const tb_status status = SharedEvent::open(driver.host, std::move(file), size, &shared)) return status;
    *out = (new Event(driver.host, 0, std::move(shared), true))->handle();
    driver.event_count.fetch_add(1);
    return TB_OK;
  });
}

} // namespace tb::drivers::cpu::slots
