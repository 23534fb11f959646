// Functions of the host in the order of a stream.
#include "driver.h"
#include "opencl/failure.h"
#include "streams/slots.h"

namespace tb::opencl {

void HostCalls::add(Call call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  wake_.notify_one();
}

void HostCalls::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  wake_.notify_one();
}

void HostCalls::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopped_ || !calls_.empty(); });
    if (calls_.empty()) break;
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    cl_.clWaitForEvents(1, call.before.address());
    const cl_int state = call.before.state();
    call.function(call.user, state < 0 ? status_of(state) : call.covers.peek());
    cl_.clSetUserEventStatus(call.after.get(), CL_COMPLETE);
  }
  ended_ = true;
}

tb_status stream_host_call(tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (!function) return fail(self->host, TB_INVALID_ARGUMENT, 0, "function is NULL");
  const Functions &cl = self->cl;
  const std::lock_guard lock(stream->mutex);
  if (!stream->host_calls) stream->host_calls = std::make_unique<HostCalls>(cl);
  cl_int code = CL_SUCCESS;
  cl_event before = nullptr, barrier = nullptr;
  const Event after(cl, cl.clCreateUserEvent(self->context, &code));
  if (code != CL_SUCCESS) return self->failed(code, "clCreateUserEvent");
  code = cl.clEnqueueMarkerWithWaitList(stream->queue, 0, nullptr, &before);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueMarkerWithWaitList");
  Event passed(cl, before);
  code = cl.clEnqueueBarrierWithWaitList(stream->queue, 1, after.address(), &barrier);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueBarrierWithWaitList");
  const Covers covers = stream->point().covers;
  note(cl, stream, barrier);
  cl.clFlush(stream->queue);
  stream->host_calls->add({std::move(passed), after, covers, function, user});
  return TB_OK;
}

} // namespace tb::opencl
