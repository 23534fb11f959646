// The table's functions about streams, events and closures (ASYNC, TIMING, HOSTCALL, NATIVE,
// CLOSURE).
#include "drivers/cpu/driver.h"
#include "drivers/cpu/stream/copy.h"

namespace tb::drivers::cpu::slots {

namespace {

// Waiting is refused on a capturing stream: its work has not run and never will.
tb_status refuse_capture(Driver &driver, const Stream &stream) {
  if (!stream.capturing()) return TB_OK;
  return fail(driver.host, TB_FAILED_PRECONDITION,
              "a stream of device %d captures, so its work has not begun: ask after capture_end and graph_launch",
              stream.device().number());
}

} // namespace

tb_status device_synchronize(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    const Stream *running = Stream::running();
    if (running && &running->device() == device)
      return fail(driver.host, TB_FAILED_PRECONDITION,
                  "work of a stream cannot wait for its own device: it would wait for itself");
    struct Target {
      Ref<Stream> stream;
      uint64_t position;
    };
    std::vector<Target> targets;
    const std::vector<Ref<Stream>> streams = driver.streams.of_device(*device);
    for (const Ref<Stream> &stream : streams)
      if (const tb_status status = refuse_capture(driver, *stream)) return status;
    for (const Ref<Stream> &stream : streams) targets.push_back({stream, stream->queue().tail()});
    device->waiting().fetch_add(1, std::memory_order_relaxed);
    for (const Target &target : targets) target.stream->wait_or_run(target.position, device->spin());
    device->waiting().fetch_sub(1, std::memory_order_relaxed);
    // One call reports one failure; those of other streams stay for the next call.
    for (const Target &target : targets)
      if (const tb_status status = target.stream->query(target.position)) return status;
    return device->orphaned_failures().report(UINT64_MAX, driver.host, driver.tails);
  });
}

tb_status stream_default(tb_driver *self, int32_t number, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = device->default_stream->handle();
    return TB_OK;
  });
}

tb_status stream_create(tb_driver *self, int32_t number, int32_t priority, uint64_t flags, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    *out = driver.streams.create(*device, std::clamp(priority, -1, 0), false)->handle();
    return TB_OK;
  });
}

tb_status stream_destroy(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    Stream &stream = *Stream::of(handle);
    StreamWrapper *wrapper = StreamWrapper::of(handle);
    if (stream.is_default() && !wrapper)
      return fail(driver.host, TB_INVALID_ARGUMENT, "the default stream is borrowed: it lives until close");
    if (stream.capturing())
      return fail(driver.host, TB_FAILED_PRECONDITION, "the stream takes part in a capture: capture_end comes first");
    delete wrapper;
    driver.streams.drop_handle(stream);
    return TB_OK;
  });
}

tb_status stream_query(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    Stream &stream = *Stream::of(handle);
    if (const tb_status status = refuse_capture(driver, stream)) return status;
    return stream.query(stream.queue().tail());
  });
}

tb_status stream_synchronize(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    Stream &stream = *Stream::of(handle);
    if (const tb_status status = refuse_capture(driver, stream)) return status;
    return stream.synchronize(stream.queue().tail(), stream.device().spin());
  });
}

tb_status stream_wait_event(tb_driver *self, tb_stream *handle, tb_event *event) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (const tb_status status = driver.require(event, "event")) return status;
    return Event::of(event)->hold_back(*Stream::of(handle));
  });
}

tb_status event_create(tb_driver *self, int32_t number, uint64_t flags, tb_event **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number)) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC))
      return status;
    std::shared_ptr<SharedEvent> shared;
    if (flags & TB_EVENT_IPC)
      if (const tb_status status = SharedEvent::create(driver.host, &shared)) return status;
    *out = (new Event(driver.host, flags, std::move(shared), false))->handle();
    driver.event_count.fetch_add(1);
    return TB_OK;
  });
}

tb_status event_destroy(tb_driver *self, tb_event *event) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(event, "event")) return status;
    delete Event::of(event); // waits and stamps still queued hold what they need
    driver.event_count.fetch_sub(1);
    return TB_OK;
  });
}

tb_status event_record(tb_driver *self, tb_event *event, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(event, "event")) return status;
    if (const tb_status status = driver.require(handle, "stream")) return status;
    return Event::of(event)->record(*Stream::of(handle)); // a stream of another device is fine
  });
}

tb_status event_query(tb_driver *self, tb_event *event) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(event, "event")) return status;
    return Event::of(event)->query();
  });
}

tb_status event_synchronize(tb_driver *self, tb_event *event) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(event, "event")) return status;
    return Event::of(event)->synchronize();
  });
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(start, "start")) return status;
    if (const tb_status status = driver.require(end, "end")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    return Event::elapsed(*Event::of(start), *Event::of(end), out);
  });
}

tb_status stream_host_call(tb_driver *self, tb_stream *handle, void (*function)(void *user, tb_status status),
                           void *user) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (!function) return fail(driver.host, TB_INVALID_ARGUMENT, "function is NULL");
    return enqueue(*Stream::of(handle), HostCallWork{function, user});
  });
}

tb_status stream_native(tb_driver *self, tb_stream *handle, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = Stream::of(handle)->native();
    return TB_OK;
  });
}

tb_status stream_wrap(tb_driver *self, int32_t number, uint64_t native, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    auto wrapper = std::make_unique<StreamWrapper>();
    wrapper->stream = driver.streams.add_handle(native);
    if (!wrapper->stream)
      return fail(driver.host, TB_NOT_FOUND,
                  "%llu is no live stream of this driver: wrap what stream_native gave, before the stream is destroyed",
                  static_cast<unsigned long long>(native));
    if (&wrapper->stream->device() != device) {
      const int32_t owner = wrapper->stream->device().number();
      driver.streams.drop_handle(*wrapper->stream);
      return fail(driver.host, TB_INVALID_ARGUMENT, "the stream belongs to device %d, not to device %d", owner, number);
    }
    *out = wrapper.release()->handle();
    return TB_OK;
  });
}

tb_status closure_reserve(tb_driver *self, tb_stream *handle, uint64_t size, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!handle || !out) [[unlikely]]
      return driver.require(nullptr, handle ? "out" : "stream");
    uint64_t end;
    return Stream::of(handle)->reserve(size, out, end);
  });
}

tb_status closure_commit(tb_driver *self, tb_stream *handle, void *storage, const tb_closure *closure) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!handle) [[unlikely]]
      return driver.require(handle, "stream");
    Stream &stream = *Stream::of(handle);
    if (!closure || !closure->run || !closure->destroy || !closure->name) [[unlikely]]
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the closure has no %s. The reserve stays open: commit it properly or cancel it",
                  !closure            ? "description"
                  : !closure->run     ? "run"
                  : !closure->destroy ? "destroy"
                                      : "name");
    if (!stream.commit(storage, closure)) [[unlikely]]
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p did not come from closure_reserve on this stream", storage);
    return TB_OK;
  });
}

tb_status closure_cancel(tb_driver *self, tb_stream *handle, void *storage) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (!Stream::of(handle)->cancel(storage))
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p did not come from closure_reserve on this stream", storage);
    return TB_OK;
  });
}

} // namespace tb::drivers::cpu::slots
