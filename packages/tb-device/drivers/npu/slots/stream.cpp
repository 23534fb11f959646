// The table's functions about streams (ASYNC, HOSTCALL, NATIVE).
#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {

Stream &stream_of(Driver &driver, tb_stream *handle) {
  driver.need(handle, "stream");
  return *Stream::of(handle);
}

struct HostCall {
  void (*function)(void *user, tb_status status);
  void *user;
};

// The library passes no status on, so a host function always receives TB_OK.
void run_host_call(void *argument) {
  const std::unique_ptr<HostCall> call(static_cast<HostCall *>(argument));
  call->function(call->user, TB_OK);
}

} // namespace

namespace slots {

tb_status device_synchronize(tb_driver *self, int32_t device) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    if (!driver.runtime->was_used(device)) return; // nothing can be queued on it
    {
      const Bound bound = driver.bind(device);
      driver.call(driver.library.aclrtSynchronizeDevice);
    }
    driver.sweep(false);
  });
}

tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    *out = driver.default_stream(device)->handle();
  });
}

tb_status stream_create(tb_driver *self, int32_t device, int32_t, uint64_t flags, tb_stream **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.refuse_flags(flags, 0);
    *out = driver.create_stream(device, Stream::Kind::created)->handle();
    ++driver.stream_count;
  });
}

tb_status stream_destroy(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) {
    Stream &stream = stream_of(driver, handle);
    if (stream.kind == Stream::Kind::device_default)
      refuse(TB_INVALID_ARGUMENT, "the default stream of device %d is borrowed, not to be destroyed", stream.device);
    --driver.stream_count;
    if (stream.kind == Stream::Kind::wrapped)
      delete &stream;
    else
      driver.retire(&stream);
  });
}

tb_status stream_query(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    const Stream &stream = stream_of(driver, handle);
    const Bound bound = driver.bind(stream.device);
    int32_t status = acl::stream_not_ready;
    driver.call(driver.library.aclrtStreamQuery, stream.native, &status);
    if (status != acl::stream_complete) return TB_NOT_READY;
    driver.call(driver.library.aclrtSynchronizeStream, stream.native); // returns at once, and reports failures
    return TB_OK;
  });
}

tb_status stream_synchronize(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) {
    const Stream &stream = stream_of(driver, handle);
    const Bound bound = driver.bind(stream.device);
    driver.call(driver.library.aclrtSynchronizeStream, stream.native);
  });
}

tb_status stream_wait_event(tb_driver *self, tb_stream *handle, tb_event *event_handle) {
  return with(self, [&](Driver &driver) {
    const Stream &stream = stream_of(driver, handle);
    driver.need(event_handle, "event");
    const auto point = Event::of(event_handle)->point();
    if (!point) return; // never recorded
    const Bound bound = driver.bind(stream.device);
    driver.call(driver.library.aclrtStreamWaitEvent, stream.native, point->native);
  });
}

tb_status stream_host_call(tb_driver *self, tb_stream *handle, void (*function)(void *, tb_status), void *user) {
  return with(self, [&](Driver &driver) {
    const Stream &stream = stream_of(driver, handle);
    if (!function) refuse(TB_INVALID_ARGUMENT, "function is NULL");
    const Bound bound = driver.bind(stream.device);
    auto call = std::make_unique<HostCall>(HostCall{function, user});
    driver.call(driver.library.aclrtLaunchHostFunc, stream.native, run_host_call, static_cast<void *>(call.get()));
    call.release(); // frees itself
  });
}

tb_status stream_native(tb_driver *self, tb_stream *handle, uint64_t *out) {
  return with(self, [&](Driver &driver) {
    const Stream &stream = stream_of(driver, handle);
    driver.need(out, "out");
    *out = reinterpret_cast<uintptr_t>(stream.native);
  });
}

// 0 is the library's own default stream of the device.
tb_status stream_wrap(tb_driver *self, int32_t device, uint64_t native, tb_stream **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    auto *stream = reinterpret_cast<acl::Stream>(static_cast<uintptr_t>(native));
    if (driver.library.aclrtStreamGetId) {
      const Bound bound = driver.bind(device);
      int32_t id = 0;
      if (const acl::Error error = driver.library.aclrtStreamGetId(stream, &id)) {
        const Failure failure = failure_of("aclrtStreamGetId", error, driver.library.aclGetRecentErrMsg());
        throw Failure(tb_is_refusal(failure.status) ? tb_status(TB_INVALID_ARGUMENT) : failure.status, failure.code,
                      failure.text);
      }
    }
    *out = (new Stream{device, stream, Stream::Kind::wrapped})->handle();
    ++driver.stream_count;
  });
}

} // namespace slots
} // namespace tb::drivers::npu
