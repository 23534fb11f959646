// event_api.cpp -- events: points in streams, dependencies between captured work, times.
#include <chrono>

#include "capture.h"
#include "shared_record.h"

namespace simcuda {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CUresult record(Event &event, Stream &stream) {
  if (event.context != stream.context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream.capture) {
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event.capture = stream.capture;
    event.frontier = stream.frontier;
    return CUDA_SUCCESS;
  }
  event.capture.reset();
  auto when = std::make_shared<std::atomic<int64_t>>(0);
  std::function<void()> shared = [] {};
  if (event.shared) shared = event.shared->begin_record();
  event.record = queue_operation(stream, [when, shared](CUresult) {
    *when = now();
    shared();
    return CUDA_SUCCESS;
  });
  event.record.when = when;
  return CUDA_SUCCESS;
}

// A stream that waits for a captured point joins the capture.
CUresult wait_captured(Stream &stream, Event &event) {
  Capture &capture = *event.capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture.context->captures.count(event.capture)) return CUDA_ERROR_CAPTURED_EVENT; // the capture has ended
  if (stream.legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (stream.capture && stream.capture != event.capture) {
    capture.invalidated = stream.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.frontier.clear();
    capture.streams.insert(&stream);
  }
  stream.frontier.insert(event.frontier.begin(), event.frontier.end());
  return CUDA_SUCCESS;
}

CUresult wait_event(Stream &stream, Event &event) {
  if (event.capture) return wait_captured(stream, event);
  if (stream.capture) {
    if (!event.record.queue) return CUDA_SUCCESS;
    stream.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event.shared) {
    queue_operation(stream, [wait = event.shared->waiter()](CUresult) {
      wait();
      return CUDA_SUCCESS;
    });
  } else if (event.record.queue && !passed(event)) {
    queue_operation(stream, [point = event.record](CUresult) {
      point.queue->wait(point.number);
      return CUDA_SUCCESS;
    });
  }
  return CUDA_SUCCESS;
}

// Checks whether the event can be queried or waited for by the host.
CUresult usable(Event &event, Context &context) {
  if (event.capture) return CUDA_ERROR_CAPTURED_EVENT;
  return check_capture_mode(context);
}

} // namespace

bool passed(const Event &event) {
  if (event.shared) return event.shared->passed();
  return !event.record.queue || event.record.queue->done(event.record.number);
}

} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuEventCreate(CUevent *out, unsigned flags) {
  return call<"cuEventCreate">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    if (!out || flags > 7 || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
      return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_shared<Event>();
    event->context = context;
    event->flags = flags;
    if (flags & CU_EVENT_INTERPROCESS) event->shared = SharedRecord::create();
    if ((flags & CU_EVENT_INTERPROCESS) && !event->shared) return CUDA_ERROR_OPERATING_SYSTEM;
    all.events[event.get()] = event;
    *out = reinterpret_cast<CUevent>(event.get());
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuEventDestroy_v2(CUevent handle) {
  return call<"cuEventDestroy_v2">([&]() -> CUresult {
    Lock lock(world().mutex);
    return world().events.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

extern "C" CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call<"cuEventRecord">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(stream_handle, &result);
    if (!stream) return result;
    const auto event = find_event(handle, &result);
    return event ? record(*event, *stream) : result;
  });
}

extern "C" CUresult cuEventQuery(CUevent handle) {
  return call<"cuEventQuery">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto event = find_event(handle, &result);
    if (!event) return result;
    if ((result = usable(*event, *event->context))) return result;
    if (!passed(*event)) return CUDA_ERROR_NOT_READY;
    return event->context->failed;
  });
}

extern "C" CUresult cuEventSynchronize(CUevent handle) {
  return call<"cuEventSynchronize">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto event = find_event(handle, &result);
    if (!event) return result;
    if ((result = usable(*event, *event->context))) return result;
    const Record point = event->record;
    const auto shared = event->shared;
    Context &context = *event->context;
    lock.unlock();
    if (shared)
      shared->waiter()();
    else if (point.queue)
      point.queue->wait(point.number);
    return context.failed;
  });
}

extern "C" CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  return call<"cuEventElapsedTime">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto start = find_event(start_handle, &result), end = find_event(end_handle, &result);
    if (!start || !end) return result;
    for (const Event *event : {start.get(), end.get()})
      if ((event->flags & CU_EVENT_DISABLE_TIMING) || !event->record.queue) return CUDA_ERROR_INVALID_HANDLE;
    if (!passed(*start) || !passed(*end)) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(static_cast<double>(*end->record.when - *start->record.when) / 1e6);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  return call<"cuStreamWaitEvent">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto stream = find_stream(stream_handle, &result);
    if (!stream) return result;
    const auto event = find_event(handle, &result);
    return event ? wait_event(*stream, *event) : result;
  });
}
