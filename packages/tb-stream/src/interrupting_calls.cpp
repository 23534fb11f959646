// interrupting_calls.cpp -- the functions of the driver's table that end an interruptible capture before they wait for its
// work, ask about it, or do what it cannot contain. Each then calls what is beneath it in the table.
#include "interruption.h"
#include "recorded_table.h"

namespace tb::stream {
namespace {

const tb_driver_api &beneath() { return recorded_table().beneath; }

tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  if (tb_status status = interrupt_stream(stream, "stream_synchronize"); status != TB_OK) return status;
  return beneath().stream_synchronize(self, stream);
}

tb_status stream_query(tb_driver *self, tb_stream *stream) {
  if (tb_status status = interrupt_stream(stream, "stream_query"); status != TB_OK) return status;
  return beneath().stream_query(self, stream);
}

tb_status device_synchronize(tb_driver *self, int32_t device) {
  if (tb_status status = interrupt_device(device, "device_synchronize"); status != TB_OK) return status;
  return beneath().device_synchronize(self, device);
}

tb_status event_synchronize(tb_driver *self, tb_event *event) {
  if (tb_status status = interrupt_event(event, "event_synchronize"); status != TB_OK) return status;
  return beneath().event_synchronize(self, event);
}

tb_status event_query(tb_driver *self, tb_event *event) {
  if (tb_status status = interrupt_event(event, "event_query"); status != TB_OK) return status;
  return beneath().event_query(self, event);
}

tb_status event_elapsed_ns(tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
  for (tb_event *event : {start, end})
    if (tb_status status = interrupt_event(event, "event_elapsed_ns"); status != TB_OK) return status;
  return beneath().event_elapsed_ns(self, start, end, out);
}

tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  if (tb_status status = interrupt_wait(stream, event); status != TB_OK) return status;
  const tb_status status = beneath().stream_wait_event(self, stream, event);
  if (status == TB_OK) note_wait(stream);
  return status;
}

tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  const tb_status status = beneath().event_record(self, event, stream);
  if (status == TB_OK) note_record(event, stream);
  return status;
}

tb_status event_destroy(tb_driver *self, tb_event *event) {
  note_record(event, nullptr);
  return beneath().event_destroy(self, event);
}

} // namespace

void put_interrupting_functions(RecordedTable &all) {
  const bool on = all.interruptible > 0;
  const auto exchange = [&]<class Function>(Function tb_driver_api::*slot, Function own) {
    put<Function>(all.table->*slot, on ? own : all.beneath.*slot);
  };
  using Api = tb_driver_api;
  exchange(&Api::stream_synchronize, &stream_synchronize);
  exchange(&Api::stream_query, &stream_query);
  exchange(&Api::device_synchronize, &device_synchronize);
  exchange(&Api::event_synchronize, &event_synchronize);
  exchange(&Api::event_query, &event_query);
  exchange(&Api::event_elapsed_ns, &event_elapsed_ns);
  exchange(&Api::stream_wait_event, &stream_wait_event);
  exchange(&Api::event_record, &event_record);
  exchange(&Api::event_destroy, &event_destroy);
}

} // namespace tb::stream
