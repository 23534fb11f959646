// stream_api.cpp -- streams, host functions, and the order between the legacy stream and blocking ones.
#include <algorithm>

#include "capture.h"

namespace simcuda {
namespace {

CUresult create(CUstream *out, unsigned flags, int priority) {
  World &all = world();
  Lock lock(all.mutex);
  CUresult result;
  Context *context = current_context(&result);
  if (!context) return result;
  if (!out || (flags & ~1u)) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->queue = std::make_shared<Queue>(*context);
  std::erase_if(context->queues, [](const auto &queue) {
    if (!queue->ended()) return false;
    queue->join(); // an event may keep the queue alive, but its thread must end here
    return true;
  });
  context->queues.push_back(stream->queue);
  all.streams[stream.get()] = stream;
  *out = stream->handle();
  return CUDA_SUCCESS;
}

void wait_for_last(Stream &stream, const std::shared_ptr<Queue> &other) {
  if (const uint64_t number = other->last(); number && !other->done(number))
    stream.queue->push([other, number](CUresult) {
      other->wait(number);
      return CUDA_SUCCESS;
    });
}

// The host may neither wait for a capturing stream nor query it. An attempt invalidates the capture.
CUresult refuse_capturing(Stream &stream) {
  if (!stream.capture) return CUDA_SUCCESS;
  stream.capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

} // namespace

Record queue_operation(Stream &stream, Operation operation, bool kernel) {
  if (stream.legacy) {
    for (const auto &[handle, other] : world().streams)
      if (other->context == stream.context && !(other->flags & CU_STREAM_NON_BLOCKING) && !other->capture)
        wait_for_last(stream, other->queue);
  } else if (!(stream.flags & CU_STREAM_NON_BLOCKING)) {
    wait_for_last(stream, stream.context->legacy->queue);
  }
  Record record{stream.queue, 0, std::make_shared<std::atomic<int64_t>>(0)};
  record.number = stream.queue->push(std::move(operation), kernel);
  return record;
}

CUresult submit(Stream &stream, Work kind, Operation operation) {
  if (stream.legacy) {
    for (const auto &capture : stream.context->captures)
      if (!(capture->origin->flags & CU_STREAM_NON_BLOCKING)) {
        capture->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  }
  if (!stream.capture) {
    queue_operation(stream, std::move(operation), kind == Work::kernel);
    return CUDA_SUCCESS;
  }
  if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream.capture->nodes.push_back({kind, std::move(operation), stream.frontier});
  stream.frontier = {stream.capture->nodes.size() - 1};
  return CUDA_SUCCESS;
}

CUresult check_capture_mode(Context &context) {
  for (const auto &capture : context.captures) {
    const bool noticed =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && capture->thread == std::this_thread::get_id());
    if (!noticed) continue;
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  return call<"cuStreamCreate">([&] { return create(out, flags, 0); });
}

extern "C" CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  return call<"cuStreamCreateWithPriority">([&] { return create(out, flags, priority); });
}

extern "C" CUresult cuStreamDestroy_v2(CUstream handle) {
  return call<"cuStreamDestroy_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto stream = find(all.streams, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (const auto capture = stream->capture) {
      capture->invalidated = true;
      if (capture->origin == stream.get())
        end_capture(capture);
      else
        capture->streams.erase(stream.get());
    }
    stream->queue->close();
    all.streams.erase(handle);
    return stream->context->failed;
  });
}

extern "C" CUresult cuStreamQuery(CUstream handle) {
  return call<"cuStreamQuery">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if ((result = refuse_capturing(*stream))) return result;
    return stream->queue->done(stream->queue->last()) ? stream->context->failed.load() : CUDA_ERROR_NOT_READY;
  });
}

extern "C" CUresult cuStreamSynchronize(CUstream handle) {
  return call<"cuStreamSynchronize">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if ((result = refuse_capturing(*stream))) return result;
    Context &context = *stream->context;
    const auto queue = stream->queue;
    // The empty operation on the legacy stream waits for blocking streams too.
    if (stream->legacy) queue_operation(*stream, [](CUresult) { return CUDA_SUCCESS; });
    const uint64_t last = queue->last();
    lock.unlock();
    queue->wait(last);
    return context.failed;
  });
}

extern "C" CUresult cuStreamGetCtx(CUstream handle, CUcontext *out) {
  return call<"cuStreamGetCtx">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    *out = reinterpret_cast<CUcontext>(stream->context);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuStreamGetPriority(CUstream handle, int *out) {
  return call<"cuStreamGetPriority">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    *out = stream->priority;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuStreamGetFlags(CUstream handle, unsigned *out) {
  return call<"cuStreamGetFlags">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    *out = stream->flags;
    return CUDA_SUCCESS;
  });
}

// Unlike with cuLaunchHostFunc, the callback is also called after a failure, which it gets, and is never captured.
extern "C" CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *user, unsigned flags) {
  return call<"cuStreamAddCallback">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    if ((result = refuse_capturing(*stream))) return result;
    queue_operation(*stream, [context = stream->context, handle, callback, user](CUresult failed) {
      std::lock_guard one_at_a_time(context->callbacks);
      in_callback = true;
      callback(handle, failed, user);
      in_callback = false;
      return CUDA_SUCCESS;
    });
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *user) {
  return call<"cuLaunchHostFunc">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(handle, &result);
    if (!stream) return result;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    return submit(*stream, Work::host, [context = stream->context, function, user](CUresult failed) {
      if (failed) return CUDA_SUCCESS;
      std::lock_guard one_at_a_time(context->callbacks);
      in_callback = true;
      function(user);
      in_callback = false;
      return CUDA_SUCCESS;
    });
  });
}
