// What every function of the table begins with: devices, contexts, statuses.
#include "drivers/cuda/driver.h"

#include <cstdio>

namespace tb::drivers::cuda {

Driver::Driver(const tb_host *host, Api found) : DriverBase(host), api(std::move(found)) {}

void Driver::find_uuid(Device &device) {
  const CUresult result =
      api.cuDeviceGetUuid ? api.cuDeviceGetUuid(&device.uuid, device.native) : CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) return;
  // Its place in the machine, which no other device has.
  int bus = 0, place = 0;
  if (api.cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device.native) != CUDA_SUCCESS) bus = 0;
  if (api.cuDeviceGetAttribute(&place, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device.native) != CUDA_SUCCESS) place = 0;
  std::snprintf(device.uuid.bytes, sizeof device.uuid.bytes, "%02x:%02x #%d", bus & 0xff, place & 0xff, device.number);
  host->log(1,
            ("cuDeviceGetUuid gave " + std::to_string(result) + ": the device's PCI address is used instead").c_str());
}

tb_status Driver::find_devices() {
  for (int32_t number = 0; number < api.devices; ++number) {
    CUdevice native = number;
    if (const tb_status status = report(api.cuDeviceGet(&native, number), "cuDeviceGet")) return status;
    devices.push_back(std::make_unique<Device>(number, native));
    find_uuid(*devices.back());
  }
  return TB_OK;
}

Device *Driver::device(int32_t number, tb_status *status) {
  if (number >= 0 && static_cast<size_t>(number) < devices.size()) {
    *status = TB_OK;
    return devices[static_cast<size_t>(number)].get();
  }
  *status =
      fail(host, TB_OUT_OF_RANGE, "there is no CUDA device %d; there are %zu, counted from 0", number, devices.size());
  return nullptr;
}

tb_status Driver::check_usable(Device &device) {
  const CUresult lost = device.lost;
  if (lost == CUDA_SUCCESS) return TB_OK;
  const char *name = nullptr;
  if (api.cuGetErrorName(lost, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
  return fail_native(host, TB_DEVICE_LOST, lost,
                     "CUDA device %d is lost since %s (%d). Reset it, which frees all "
                     "of its memory in this process, or start a new process",
                     device.number, name, lost);
}

Device *Driver::usable(int32_t number, tb_status *status) {
  Device *found = device(number, status);
  if (found && (*status = check_usable(*found))) return nullptr;
  return found;
}

Stream *Driver::working_stream(int32_t number, tb_stream *handle, tb_status *status) {
  Device *found = usable(number, status);
  if (!found) return nullptr;
  if (!has_async() && !handle) return &found->stream;
  Stream *stream = usable_object<Stream>(handle, "stream", status);
  if (!stream || &stream->device == found) return stream;
  *status =
      fail(host, TB_INVALID_ARGUMENT, "the stream is device %d's, not device %d's", stream->device.number, number);
  return nullptr;
}

tb_status Driver::finish(Device &device) {
  return has_async() ? TB_OK : report(device, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

tb_status Driver::report(Device &device, CUresult result, const char *function, const char *remedy) {
  if (result == CUDA_SUCCESS) return TB_OK;
  if (result == CUDA_ERROR_NOT_READY) return TB_NOT_READY;
  if (is_sticky(result)) {
    CUresult none = CUDA_SUCCESS;
    device.lost.compare_exchange_strong(none, result);
  }
  return fail_cuda(host, api, status_of(result), result, function, remedy);
}

tb_status Driver::report(CUresult result, const char *function) {
  if (result == CUDA_SUCCESS) return TB_OK;
  return fail_cuda(host, api, status_of(result), result, function);
}

bool Driver::is_capturing(Stream &stream) {
  if (stream.device.captures == 0 || stream.owner == Owner::nobody) return false;
  int capturing = 0;
  return api.cuStreamIsCapturing(stream.native, &capturing) == CUDA_SUCCESS &&
         capturing != CU_STREAM_CAPTURE_STATUS_NONE;
}

tb_status Driver::refuse_capturing(Stream &stream) {
  if (!is_capturing(stream)) return TB_OK;
  return fail(host, TB_FAILED_PRECONDITION,
              "the stream captures: its work is not queued. End the capture before asking or waiting for it");
}

void Driver::reap_modules(Device &device, bool idle) {
  std::lock_guard lock(device.mutex);
  if (device.unloaded.empty()) return;
  idle = idle || (!device.strays && device.captures == 0 && api.cuStreamQuery(nullptr) == CUDA_SUCCESS);
  for (auto stream = device.streams.begin(); idle && stream != device.streams.end(); ++stream)
    idle = api.cuStreamQuery((*stream)->native) == CUDA_SUCCESS;
  if (!idle) return;
  for (const CUmodule module : std::exchange(device.unloaded, {}))
    if (const CUresult result = api.cuModuleUnload(module))
      host->log(2, ("cuModuleUnload failed with " + std::to_string(result) + ": a module stays loaded").c_str());
}

Current::Current(Driver &driver, Device &device) : driver_(driver) { status = enter(device); }

tb_status Current::failed(Device &device, CUresult result, const char *function) {
  result_ = result;
  function_ = function;
  return driver_.report(device, result, function);
}

tb_status Current::refusal() const {
  if (status == TB_DEVICE_LOST) return status; // and so is what was to be released
  return fail_cuda(driver_.host, driver_.api, TB_FAILED_PRECONDITION, result_, function_,
                   "Nothing was released: release it again");
}

tb_status Current::enter(Device &device) {
  const Api &api = driver_.api;
  if (!device.context.load(std::memory_order_acquire)) {
    std::lock_guard lock(device.mutex);
    CUcontext made = nullptr;
    if (!device.context.load()) {
      if (const CUresult result = api.cuDevicePrimaryCtxRetain(&made, device.native))
        return failed(device, result, "cuDevicePrimaryCtxRetain");
      device.context.store(made, std::memory_order_release);
    }
  }
  const CUcontext wanted = device.context.load(std::memory_order_acquire);
  if (const CUresult result = api.cuCtxGetCurrent(&before_)) return failed(device, result, "cuCtxGetCurrent");
  if (before_ == wanted) return TB_OK;
  if (const CUresult result = api.cuCtxSetCurrent(wanted)) return failed(device, result, "cuCtxSetCurrent");
  changed_ = true;
  return TB_OK;
}

Current::~Current() {
  if (!changed_) return;
  if (const CUresult result = driver_.api.cuCtxSetCurrent(before_))
    driver_.host->log(2, ("cuCtxSetCurrent failed with " + std::to_string(result) +
                          ": this thread's current CUDA context is not what it was")
                             .c_str());
}

} // namespace tb::drivers::cuda
