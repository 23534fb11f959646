// interruption.h -- captures that end by themselves where the host needs what the captured work computes.
//
// An interruptible capture refuses nothing. Before the host waits for its work, asks about it, or does what no graph
// can contain, the capture ends, what was captured is launched once on the stream that began, and the caller goes on as
// if nothing had been captured. So code that runs under such a capture runs once, whatever it does.
#pragma once

#include "host.h"

namespace tb::stream {

// From now on the capture can be interrupted. interrupted(user) is called on the interrupting thread, without a lock,
// before the capture ends; it must not throw, nor use the stream.
tb_status capture_allow_interruption(tb_capture *capture, void (*interrupted)(void *user), void *user);
// Interrupts the capture that `stream` takes part in, if there is one and it can be interrupted. reason: a sentence
// without its end. *captures: whether the stream captures afterwards.
tb_status capture_interrupt(tb_stream *stream, const char *reason, int32_t *captures);
// Ends an interruptible capture and launches it once, unless that has happened. *open_events: how many events that were
// recorded in the capture are still in use.
tb_status capture_complete(tb_capture *capture, uint64_t *open_events);
// Why the capture was interrupted, as long as it exists; "" if it was not.
const char *capture_interruption(const tb_capture *capture);

// For the functions that are in the driver's table while there is an interruptible capture: what the work of a stream,
// of an event or of a device needs before `function` may wait for it or ask about it.
tb_status interrupt_stream(tb_stream *stream, const char *function);
tb_status interrupt_event(tb_event *event, const char *function);
tb_status interrupt_device(int32_t device, const char *function);
// A stream is about to wait for an event, or waits for it now; an event was recorded on a stream, or is destroyed
// (stream NULL).
tb_status interrupt_wait(tb_stream *stream, tb_event *event);
void note_wait(tb_stream *stream);
void note_record(tb_event *event, tb_stream *stream);

} // namespace tb::stream
