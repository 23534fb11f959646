// The table's functions about streams (ASYNC, HOSTCALL, NATIVE).
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

void run_call(CUstream, CUresult result, void *user) {
  const std::unique_ptr<Driver::HostCall> call(static_cast<Driver::HostCall *>(user));
  call->function(call->user, status_of(result));
}

void run_captured(void *user) {
  const auto &call = *static_cast<Driver::HostCall *>(user);
  call.function(call.user, TB_OK);
}

Stream *add(Driver &driver, Device &device, CUstream native, Owner owner) {
  auto stream = std::make_unique<Stream>(Stream{{device, native, device.generation}, owner});
  if (owner == Owner::driver) {
    std::lock_guard lock(device.mutex);
    device.streams.insert(stream.get());
  }
  driver.live.streams.fetch_add(1);
  return stream.release();
}

tb_status destroy_native(Driver &driver, Stream &stream) {
  Device &device = stream.device;
  const Current current(driver, device);
  if (current.status) return current.refusal();
  const bool busy = driver.is_capturing(stream) || driver.api.cuStreamQuery(stream.native) != CUDA_SUCCESS;
  {
    std::lock_guard lock(device.mutex);
    device.streams.erase(&stream);
    if (device.capturing.erase(stream.native)) device.captures.fetch_sub(1);
    device.strays = device.strays || busy;
  }
  return driver.report(device, driver.api.cuStreamDestroy(stream.native), "cuStreamDestroy");
}

} // namespace

namespace slots {

tb_status stream_default(tb_driver *self, int32_t number, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    if (!device) return status;
    if ((status = driver.require(out, "out"))) return status;
    *out = device->stream.handle();
    return TB_OK;
  });
}

tb_status stream_create(tb_driver *self, int32_t number, int32_t priority, uint64_t flags, tb_stream **out) {
  return with_device(self, number, {{{out, "out"}}, flags}, [&](Driver &driver, Device &device) -> tb_status {
    tb_status status = TB_OK;
    CUstream native = nullptr; // the library clamps the priority
    const CUresult result = driver.api.cuStreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING, priority);
    if ((status = driver.report(device, result, "cuStreamCreateWithPriority"))) return status;
    *out = add(driver, device, native, Owner::driver)->handle();
    return TB_OK;
  });
}

tb_status stream_destroy(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = driver.require(handle, "stream");
    if (status) return status;
    Stream *stream = Stream::of(handle);
    Device &device = stream->device;
    if (stream->owner == Owner::nobody)
      return fail(driver.host, TB_INVALID_ARGUMENT, "the default stream of device %d cannot be destroyed",
                  device.number);
    if (stream->owner == Owner::driver && stream->generation == device.generation) {
      status = destroy_native(driver, *stream);
      if (tb_is_refusal(status)) return status;
    }
    {
      std::lock_guard lock(device.mutex);
      device.streams.erase(stream);
    }
    driver.live.streams.fetch_sub(1);
    delete stream;
    return status;
  });
}

tb_status stream_query(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.usable_object<Stream>(handle, "stream", &status);
    if (!stream || !stream->device.context) return status; // nothing was ever queued
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    if ((status = driver.refuse_capturing(*stream))) return status;
    return driver.report(stream->device, driver.api.cuStreamQuery(stream->native), "cuStreamQuery");
  });
}

tb_status stream_synchronize(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.usable_object<Stream>(handle, "stream", &status);
    if (!stream || !stream->device.context) return status;
    const Current current(driver, stream->device);
    if (current.status) return current.status;
    if ((status = driver.refuse_capturing(*stream))) return status;
    return driver.report(stream->device, driver.api.cuStreamSynchronize(stream->native), "cuStreamSynchronize");
  });
}

tb_status stream_wait_event(tb_driver *self, tb_stream *handle, tb_event *event_handle) {
  return with_object<Stream>(self, handle, "stream", {}, [&](Driver &driver, Stream &stream) -> tb_status {
    tb_status status = TB_OK;
    const Event *event = driver.usable_object<Event>(event_handle, "event", &status);
    if (!event) return status;
    return driver.report(stream.device, driver.api.cuStreamWaitEvent(stream.native, event->native, 0),
                         "cuStreamWaitEvent");
  });
}

tb_status stream_host_call(tb_driver *self, tb_stream *handle, void (*function)(void *user, tb_status status),
                           void *user) {
  return with_object<Stream>(self, handle, "stream", {}, [&](Driver &driver, Stream &stream) -> tb_status {
    if (!function) return fail(driver.host, TB_INVALID_ARGUMENT, "function is NULL");
    auto call = std::make_unique<Driver::HostCall>(Driver::HostCall{driver, function, user});
    if (driver.is_capturing(stream)) {
      if (!driver.api.cuLaunchHostFunc)
        return fail(driver.host, TB_UNSUPPORTED,
                    "this CUDA driver library captures no host calls: it lacks "
                    "cuLaunchHostFunc. Upgrade NVIDIA's driver");
      const tb_status status = driver.report(
          stream.device, driver.api.cuLaunchHostFunc(stream.native, run_captured, call.get()), "cuLaunchHostFunc");
      std::lock_guard lock(driver.mutex);
      if (status == TB_OK) driver.captured_calls.push_back(std::move(call));
      return status;
    }
    // Not cuLaunchHostFunc, which leaves the function out after a failure.
    const CUresult result = driver.api.cuStreamAddCallback(stream.native, run_call, call.get(), 0);
    if (result == CUDA_SUCCESS) (void)call.release(); // it frees itself
    return driver.report(stream.device, result, "cuStreamAddCallback");
  });
}

tb_status stream_native(tb_driver *self, tb_stream *handle, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = driver.usable_object<Stream>(handle, "stream", &status);
    if (!stream) return status;
    if ((status = driver.require(out, "out"))) return status;
    *out = reinterpret_cast<uintptr_t>(stream->native); // 0 for the default stream, as torch.cuda has it
    return TB_OK;
  });
}

tb_status stream_wrap(tb_driver *self, int32_t number, uint64_t native, tb_stream **out) {
  return with_device(self, number, {{{out, "out"}}}, [&](Driver &driver, Device &device) -> tb_status {
    const auto stream = reinterpret_cast<CUstream>(static_cast<uintptr_t>(native));
    CUcontext context = nullptr;
    const CUresult result = driver.api.cuStreamGetCtx(stream, &context);
    if (is_sticky(result)) return driver.report(device, result, "cuStreamGetCtx");
    if (result != CUDA_SUCCESS)
      return fail_cuda(driver.host, driver.api, TB_INVALID_ARGUMENT, result, "cuStreamGetCtx",
                       "Give the handle of a CUDA stream that is alive");
    if (context != device.context)
      return fail(driver.host, TB_INVALID_ARGUMENT, "the native stream 0x%llx is not of device %d's primary context",
                  static_cast<unsigned long long>(native), number);
    *out = add(driver, device, stream, Owner::foreign)->handle();
    return TB_OK;
  });
}

} // namespace slots
} // namespace tb::drivers::cuda
