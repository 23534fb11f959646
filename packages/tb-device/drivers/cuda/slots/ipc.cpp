// The table's functions for other processes (IPC).
//
// A handle holds CUDA's own 64 bytes, and before them what CUDA's lack: what it is of, which device, and a checksum by
// which distinguishes an invalid handle from one whose maker is gone.
#include <cstring>

#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

enum class Kind : uint32_t { memory = 1, event = 2 };
constexpr uint64_t magic_number = 0x6364757463706974; // "tipctudc"

struct Envelope {
  uint64_t magic;
  Kind kind;
  uint32_t checksum;
  CUuuid device;
  char native[64];
};
static_assert(sizeof(Envelope) <= sizeof(tb_ipc_handle::bytes));

uint32_t checksum_of(Envelope envelope) { // FNV-1a
  envelope.checksum = 0;
  unsigned char bytes[sizeof envelope];
  std::memcpy(bytes, &envelope, sizeof bytes);
  uint32_t sum = 2166136261u;
  for (const unsigned char byte : bytes) sum = (sum ^ byte) * 16777619u;
  return sum;
}

template <class Native> void write(const Device &device, Kind kind, const Native &native, tb_ipc_handle *out) {
  Envelope envelope{magic_number, kind, 0, device.uuid, {}};
  static_assert(sizeof native == sizeof envelope.native);
  std::memcpy(envelope.native, &native, sizeof native);
  envelope.checksum = checksum_of(envelope);
  std::memcpy(out->bytes, &envelope, sizeof envelope);
}

template <class Native>
tb_status read(const Driver &driver, const Device &device, Kind kind, const tb_ipc_handle &handle, Native *out) {
  Envelope envelope;
  std::memcpy(&envelope, handle.bytes, sizeof envelope);
  if (envelope.magic != magic_number || envelope.checksum != checksum_of(envelope) || envelope.kind != kind)
    return fail(driver.host, TB_INVALID_ARGUMENT, "this is no handle of %s that the CUDA driver exported",
                kind == Kind::memory ? "memory" : "an event");
  if (std::memcmp(&device.uuid, &envelope.device, sizeof device.uuid) != 0)
    return fail(driver.host, TB_INVALID_ARGUMENT, "the handle was exported by another device than %d", device.number);
  std::memcpy(out, envelope.native, sizeof *out);
  return TB_OK;
}

tb_status report_import(Driver &driver, Device &device, CUresult result, const char *function) {
  if (result == CUDA_ERROR_INVALID_CONTEXT)
    return fail_cuda(driver.host, driver.api, TB_INVALID_ARGUMENT, result, function,
                     "CUDA imports nothing in the process that exported it: use it directly");
  if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE) // but the checksum says it was good
    return fail_cuda(driver.host, driver.api, TB_DATA_LOSS, result, function,
                     "Its owner has freed it or has ended: keep it alive until it is imported");
  return driver.report(device, result, function);
}

// open(driver, device, native) opens what the handle holds and puts it where `out` points.
template <class Native, class Open> tb_status import(tb_driver *self, int32_t number, Kind kind,
                                                     const tb_ipc_handle *handle, const void *out, const char *function,
                                                     const Open &open) {
  const Given given{{{handle, "handle"}, {out, "out"}}};
  return with_device(self, number, given, [&](Driver &driver, Device &device) -> tb_status {
    Native native;
    if (const tb_status status = read(driver, device, kind, *handle, &native)) return status;
    const CUresult result = open(driver, device, native);
    return result == CUDA_SUCCESS ? TB_OK : report_import(driver, device, result, function);
  });
}

} // namespace

namespace slots {

tb_status ipc_export_memory(tb_driver *self, void *pointer, tb_ipc_handle *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    Device *owner = nullptr;
    for (const auto &device : driver.devices) {
      std::lock_guard lock(device->mutex);
      const auto found = device->blocks.find(reinterpret_cast<uintptr_t>(pointer));
      if (found != device->blocks.end() && !found->second.stream_ordered) owner = device.get();
    }
    if (!owner) return fail(driver.host, TB_INVALID_ARGUMENT, "%p is not what mem_alloc gave", pointer);
    if (const tb_status status = driver.check_usable(*owner)) return status;
    const Current current(driver, *owner);
    if (current.status) return current.status;
    CUipcMemHandle native;
    const CUresult result = driver.api.cuIpcGetMemHandle(&native, reinterpret_cast<uintptr_t>(pointer));
    if (const tb_status status = driver.report(*owner, result, "cuIpcGetMemHandle")) return status;
    write(*owner, Kind::memory, native, out);
    return TB_OK;
  });
}

tb_status ipc_import_memory(tb_driver *self, int32_t number, const tb_ipc_handle *handle, void **out) {
  const auto open = [out](Driver &driver, Device &, const CUipcMemHandle &native) {
    CUdeviceptr address = 0;
    const CUresult result = driver.api.cuIpcOpenMemHandle(&address, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) return result;
    driver.live.imports.fetch_add(1);
    *out = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
    return result;
  };
  return import <CUipcMemHandle>(self, number, Kind::memory, handle, out, "cuIpcOpenMemHandle", open);
}

tb_status ipc_close_memory(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    for (const auto &device : driver.devices) {
      if (!device->context) continue;
      const Current current(driver, *device);
      if (current.status) return current.refusal();
      const CUresult result = driver.api.cuIpcCloseMemHandle(reinterpret_cast<uintptr_t>(pointer));
      if (result == CUDA_ERROR_INVALID_VALUE) continue; // another device's, perhaps
      const tb_status status = driver.report(*device, result, "cuIpcCloseMemHandle");
      if (!tb_is_refusal(status)) driver.live.imports.fetch_sub(1);
      return status;
    }
    return fail(driver.host, TB_INVALID_ARGUMENT, "%p was not imported, or was closed already", pointer);
  });
}

tb_status ipc_export_event(tb_driver *self, tb_event *handle, tb_ipc_handle *out) {
  return with_object<Event>(self, handle, "event", {{{out, "out"}}}, [&](Driver &driver, Event &event) -> tb_status {
    if (!(event.flags & TB_EVENT_IPC))
      return fail(driver.host, TB_FAILED_PRECONDITION, "the event was made without TB_EVENT_IPC");
    CUipcEventHandle native;
    const CUresult result = driver.api.cuIpcGetEventHandle(&native, event.native);
    if (const tb_status status = driver.report(event.device, result, "cuIpcGetEventHandle")) return status;
    write(event.device, Kind::event, native, out);
    return TB_OK;
  });
}

tb_status ipc_import_event(tb_driver *self, int32_t number, const tb_ipc_handle *handle, tb_event **out) {
  const auto open = [out](Driver &driver, Device &device, const CUipcEventHandle &native) {
    CUevent event = nullptr;
    const CUresult result = driver.api.cuIpcOpenEventHandle(&event, native);
    if (result != CUDA_SUCCESS) return result;
    *out = (new Event{{device, event, device.generation}, TB_EVENT_IPC})->handle();
    driver.live.events.fetch_add(1);
    return result;
  };
  return import <CUipcEventHandle>(self, number, Kind::event, handle, out, "cuIpcOpenEventHandle", open);
}

} // namespace slots
} // namespace tb::drivers::cuda
