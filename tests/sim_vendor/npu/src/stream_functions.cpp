// stream_functions.cpp -- streams, events and host functions.
#include "entry.h"
#include "functions.h"
#include "machine.h"

namespace sim {
namespace {

// Finds the event and its point, which is NULL if it was never recorded.
Error point_of(void *handle, std::shared_ptr<Event> *event, std::shared_ptr<Point> *point) {
  *event = Machine::get().find_event(handle);
  if (!*event) return kHandle;
  std::lock_guard lock((*event)->mutex);
  *point = (*event)->point;
  return kOk;
}

} // namespace

Error aclrtCreateStream(void **out) { return Machine::get().create_stream(out); }

Error aclrtCreateStreamWithConfig(void **out, uint32_t priority, uint32_t flags) {
  if (priority > 7 || flags & ~0x3fu) return fail(kParameter, "EE1070: priority %u, flags %#x", priority, flags);
  return Machine::get().create_stream(out);
}

Error aclrtDestroyStream(void *stream) { return Machine::get().destroy_stream(stream); }

Error aclrtSynchronizeStream(void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  return stream->synchronize();
}

// Does not report failures; synchronising the stream does.
Error aclrtStreamQuery(void *handle, int32_t *status) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  *status = stream->idle() ? kStreamComplete : kStreamNotReady;
  return kOk;
}

Error aclrtStreamWaitEvent(void *handle, void *event_handle) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  std::shared_ptr<Point> point;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  if (const Error error = point_of(event_handle, &event, &point)) return error;
  if (!(event->flags & kEventSync)) return fail(kParameter, "EE1071: the event was made without ACL_EVENT_SYNC");
  if (!point) return kOk;
  stream->enqueue(
      [point] {
        point->wait();
        return kOk;
      },
      true);
  return kOk;
}

Error aclrtStreamGetId(void *handle, int32_t *id) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  *id = stream->id;
  return kOk;
}

Error aclrtLaunchHostFunc(void *handle, void (*function)(void *), void *argument) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  if (!function) return fail(kParameter, "EE1072: the function is NULL");
  stream->enqueue(
      [function, argument] {
        std::thread([function, argument] {
          in_host_function = true;
          function(argument);
        }).join();
        return kOk;
      },
      true);
  return kOk;
}

Error aclrtCreateEventExWithFlag(void **out, uint32_t flags) { return Machine::get().create_event(flags, true, out); }
Error aclrtCreateEventWithFlag(void **out, uint32_t flags) { return Machine::get().create_event(flags, false, out); }
Error aclrtDestroyEvent(void *event) { return Machine::get().destroy_event(event); }

Error aclrtRecordEvent(void *event_handle, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(handle, &stream)) return error;
  const std::shared_ptr<Event> event = Machine::get().find_event(event_handle);
  if (!event) return kHandle;
  const auto point = std::make_shared<Point>();
  std::lock_guard lock(event->mutex); // so that of two concurrent records the later point is also the later task
  if (event->point && !event->renewable)
    return fail(kParameter, "EE1073: an event of the old kind is recorded again without aclrtResetEvent");
  event->point = point;
  stream->enqueue(
      [point] {
        point->pass();
        return kOk;
      },
      true);
  return kOk;
}

Error aclrtQueryEventStatus(void *handle, int32_t *status) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Point> point;
  if (const Error error = point_of(handle, &event, &point)) return error;
  *status = !point || point->done ? kQueryComplete : kQueryNotReady;
  return kOk;
}

Error aclrtSynchronizeEvent(void *handle) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Point> point;
  if (const Error error = point_of(handle, &event, &point)) return error;
  if (point) point->wait();
  return kOk;
}

Error aclrtEventElapsedTime(float *milliseconds, void *start_handle, void *end_handle) {
  std::shared_ptr<Event> start, end;
  std::shared_ptr<Point> from, to;
  if (const Error error = point_of(start_handle, &start, &from)) return error;
  if (const Error error = point_of(end_handle, &end, &to)) return error;
  const bool timed = start->flags & end->flags & kEventTimeLine;
  if (!timed || !from || !to || !from->done || !to->done)
    return fail(kTimestamp, "EE1074: an event without ACL_EVENT_TIME_LINE, or not yet passed");
  if (to->nanoseconds < from->nanoseconds) return fail(kReversed, "EE1075: the end is before the start");
  *milliseconds = static_cast<float>(static_cast<double>(to->nanoseconds - from->nanoseconds) * 1e-6);
  return kOk;
}

} // namespace sim
