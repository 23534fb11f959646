// interruption.cpp -- ends captures early and launches what they have.
#include "interruption.h"

#include <algorithm>

#include "capture.h"
#include "capture_state.h"
#include "events.h"
#include "recorded_calls.h"
#include "streams.h"

namespace tb::stream {
namespace {

// The capture that the stream takes part in, if it can be interrupted; otherwise NULL.
tb_status interruptible_capture(tb_stream *stream, tb_capture **out) {
  void *found = nullptr;
  if (tb_status status = capture_part(stream, nullptr, &found); status != TB_OK) return status;
  auto *capture = static_cast<tb_capture *>(found);
  *out = capture && capture->interruptible ? capture : nullptr;
  return TB_OK;
}

// The interruptible captures in progress for which `holds`.
template <class Condition> std::vector<tb_capture *> captures_with(Condition holds) {
  CaptureState &all = capture_state();
  std::lock_guard guard(all.mutex);
  std::vector<tb_capture *> found;
  for (tb_capture *capture : all.active)
    if (capture->interruptible && holds(*capture)) found.push_back(capture);
  return found;
}

// Queues a wait for the work before it on one stream into another.
tb_status follow(const Driver &driver, int32_t device, tb_stream *stream, tb_stream *earlier) {
  tb_event *event = nullptr;
  if (tb_status status = acquire_event(device, 0, &event); status != TB_OK) return status;
  tb_status status = driver.api->event_record(driver.self, event, earlier);
  if (status == TB_OK) status = driver.api->stream_wait_event(driver.self, stream, event);
  if (release_event(event) != TB_OK) drop_error();
  return status;
}

// Ends the capture, launches its work once, and lets events and streams stand for the launch. The caller holds
// the capture's mutex.
tb_status end_and_launch(tb_capture &capture) {
  Interruptible &own = *capture.interruptible;
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  const Work &work = *capture.work;
  const std::set<tb_stream *> joined = capture.joined;
  const std::vector<tb_event *> events = own.events;
  own.done = true;
  for (tb_stream *stream : joined)
    if (tb_status status = follow(driver, work.device, work.stream, stream); status != TB_OK) return status;
  if (tb_status status = capture_end(&capture); status != TB_OK) return status;
  if (tb_status status = capture_launch(&capture, work.stream); status != TB_OK) return status;
  for (tb_event *event : events)
    if (tb_status status = driver.api->event_record(driver.self, event, work.stream); status != TB_OK) return status;
  for (tb_stream *stream : joined)
    if (tb_status status = follow(driver, work.device, stream, work.stream); status != TB_OK) return status;
  return TB_OK;
}

tb_status interrupt(tb_capture &capture, const char *reason) {
  Interruptible &own = *capture.interruptible;
  {
    std::lock_guard guard(own.mutex);
    if (own.done) return TB_OK;
    if (own.reason.empty()) own.reason = reason;
  }
  if (own.interrupted) own.interrupted(own.user);
  std::lock_guard guard(own.mutex);
  return own.done ? TB_OK : end_and_launch(capture);
}

tb_status interrupt_all(const std::vector<tb_capture *> &captures, const char *function) {
  const std::string reason = std::string("the host asks about work that is captured (") + function + ")";
  for (tb_capture *capture : captures)
    if (tb_status status = interrupt(*capture, reason.c_str()); status != TB_OK) return status;
  return TB_OK;
}

bool recorded_in(const tb_capture &capture, tb_event *event) {
  if (capture.interruptible->done) return false; // also on the thread that holds the mutex
  std::lock_guard guard(capture.interruptible->mutex);
  return std::ranges::find(capture.interruptible->events, event) != capture.interruptible->events.end();
}

} // namespace

tb_status capture_allow_interruption(tb_capture *capture, void (*interrupted)(void *user), void *user) {
  if (capture->stage != Stage::capturing || capture->interruptible)
    return fail(TB_FAILED_PRECONDITION, capture->work->device, "capture_allow_interruption",
                capture->interruptible ? "the capture can be interrupted already: allow it once"
                                       : "the capture has ended: allow it right after capture_begin");
  auto made = std::make_unique<Interruptible>();
  made->interrupted = interrupted;
  made->user = user;
  {
    std::lock_guard guard(capture_state().mutex);
    capture->interruptible = std::move(made);
  }
  observe_interruptible(true);
  return TB_OK;
}

tb_status capture_interrupt(tb_stream *stream, const char *reason, int32_t *captures) {
  *captures = 0;
  tb_capture *found = nullptr;
  if (tb_status status = interruptible_capture(stream, &found); status != TB_OK) return status;
  if (found)
    if (tb_status status = interrupt(*found, reason); status != TB_OK) return status;
  bool active = false;
  const tb_status status = capture_is_active(stream, &active);
  *captures = active;
  return status;
}

tb_status capture_complete(tb_capture *capture, uint64_t *open_events) {
  *open_events = 0;
  if (!capture->interruptible)
    return fail(TB_FAILED_PRECONDITION, capture->work->device, "capture_complete",
                "the capture cannot be interrupted: capture_allow_interruption comes first, or use capture_end");
  Interruptible &own = *capture->interruptible;
  std::lock_guard guard(own.mutex);
  *open_events = static_cast<uint64_t>(std::ranges::count_if(own.events, is_acquired));
  return own.done ? TB_OK : end_and_launch(*capture);
}

const char *capture_interruption(const tb_capture *capture) {
  return capture->interruptible ? capture->interruptible->reason.c_str() : "";
}

tb_status interrupt_stream(tb_stream *stream, const char *function) {
  tb_capture *found = nullptr;
  if (tb_status status = interruptible_capture(stream, &found); status != TB_OK || !found) return status;
  return interrupt_all({found}, function);
}

tb_status interrupt_event(tb_event *event, const char *function) {
  return interrupt_all(captures_with([event](const tb_capture &one) { return recorded_in(one, event); }), function);
}

tb_status interrupt_device(int32_t device, const char *function) {
  return interrupt_all(captures_with([device](const tb_capture &one) { return one.work->device == device; }), function);
}

// A default stream cannot join.
tb_status interrupt_wait(tb_stream *stream, tb_event *event) {
  int32_t device = -1;
  if (stream_device(stream, &device) != TB_OK) {
    drop_error();
    return TB_OK;
  }
  if (default_stream(device) != stream) return TB_OK;
  const auto captures = captures_with([event](const tb_capture &one) { return recorded_in(one, event); });
  for (tb_capture *capture : captures)
    if (tb_status status = interrupt(*capture, "the default stream waits for captured work, and cannot be captured");
        status != TB_OK)
      return status;
  return TB_OK;
}

void note_wait(tb_stream *stream) {
  tb_capture *found = nullptr;
  if (interruptible_capture(stream, &found) != TB_OK) drop_error(); // lists a stream that has joined
}

void note_record(tb_event *event, tb_stream *stream) {
  tb_capture *found = nullptr;
  if (stream && interruptible_capture(stream, &found) != TB_OK) drop_error();
  for (tb_capture *capture : captures_with([](const tb_capture &) { return true; })) {
    if (capture->interruptible->done) continue; // also on the thread that holds the mutex
    std::lock_guard guard(capture->interruptible->mutex);
    std::erase(capture->interruptible->events, event);
    if (capture == found) capture->interruptible->events.push_back(event);
  }
}

} // namespace tb::stream
