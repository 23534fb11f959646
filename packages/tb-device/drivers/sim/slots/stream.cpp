// The table's functions about streams, and the work that the host gives them (ASYNC, HOSTCALL,
// NATIVE, CLOSURE).
#include "drivers/sim/driver.h"

namespace tb::drivers::sim::slots {

tb_status device_synchronize(tb_driver *self, int32_t number) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    return driver.synchronize(driver.scheduler.tails_of(*device), *device, true);
  });
}

tb_status stream_default(tb_driver *self, int32_t number, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(out, "out"))) return status;
    *out = driver.default_stream(number)->handle();
    return TB_OK;
  });
}

// The priority is a hint, which this driver ignores.
tb_status stream_create(tb_driver *self, int32_t number, int32_t, uint64_t flags, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    *out = driver.add_stream(driver.scheduler.create_queue(*device), false, false)->handle();
    return TB_OK;
  });
}

tb_status stream_destroy(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) { return driver.destroy_stream(handle); });
}

tb_status stream_query(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    return driver.query({stream->queue, driver.scheduler.tail_of(*stream->queue)});
  });
}

tb_status stream_synchronize(tb_driver *self, tb_stream *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    Queue &queue = *stream->queue;
    return driver.synchronize({{stream->queue, driver.scheduler.tail_of(queue)}}, queue.device, false);
  });
}

tb_status stream_native(tb_driver *self, tb_stream *handle, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.stream(handle, &status);
    if (!stream) return status;
    if ((status = driver.require(out, "out"))) return status;
    *out = stream->queue->number + uint64_t(1);
    return TB_OK;
  });
}

tb_status stream_wrap(tb_driver *self, int32_t number, uint64_t native, tb_stream **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(out, "out"))) return status;
    auto queue = driver.native_queue(native);
    if (!queue || queue->device.number != number)
      return fail(driver.host, TB_INVALID_ARGUMENT, "device %d has no native stream %llu", number,
                  static_cast<unsigned long long>(native));
    *out = driver.add_stream(std::move(queue), false, true)->handle();
    return TB_OK;
  });
}

tb_status stream_host_call(tb_driver *self, tb_stream *handle, void (*function)(void *user, tb_status status),
                           void *user) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    if (!function) return fail(driver.host, TB_INVALID_ARGUMENT, "function is NULL");
    return driver.enqueue<HostCallOperation>(stream, function, user);
  });
}

tb_status closure_reserve(tb_driver *self, tb_stream *handle, uint64_t size, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    if ((status = driver.require(out, "out"))) return status;
    if (size > Queue::largest_closure)
      return fail(driver.host, TB_OUT_OF_RANGE, "a closure of %llu bytes is larger than half the queue, %llu bytes",
                  static_cast<unsigned long long>(size), static_cast<unsigned long long>(Queue::largest_closure));
    auto closure = std::make_shared<ClosureOperation>(stream, size);
    void *storage = closure->storage();
    driver.open_closure(closure);
    if ((status = driver.scheduler.enqueue(stream->queue, closure, nullptr))) {
      driver.take_closure(*stream, storage);
      return status;
    }
    *out = storage;
    return TB_OK;
  });
}

tb_status closure_commit(tb_driver *self, tb_stream *handle, void *storage, const tb_closure *closure) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.stream(handle, &status);
    if (!stream) return status;
    if (!closure || !closure->run || !closure->destroy || !closure->name)
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the closure has no %s. The reserve stays open: commit it properly or cancel it",
                  !closure            ? "description"
                  : !closure->run     ? "run"
                  : !closure->destroy ? "destroy"
                                      : "name");
    auto operation = driver.take_closure(*stream, storage);
    if (!operation)
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p is no open closure_reserve of this stream", storage);
    operation->commit(closure);
    driver.scheduler.commit(std::move(operation));
    return TB_OK;
  });
}

tb_status closure_cancel(tb_driver *self, tb_stream *handle, void *storage) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.stream(handle, &status);
    if (!stream) return status;
    auto operation = driver.take_closure(*stream, storage);
    if (!operation)
      return fail(driver.host, TB_INVALID_ARGUMENT, "%p is no open closure_reserve of this stream", storage);
    driver.scheduler.commit(std::move(operation));
    return TB_OK;
  });
}

} // namespace tb::drivers::sim::slots
