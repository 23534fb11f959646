// table.cpp -- the C table of tb-stream. Only here C++ exceptions (out of memory for the library's own lists) become a
// status.
#include "table.h"

#include <exception>

#include "capture.h"
#include "capturing.h"
#include "events.h"
#include "interruption.h"
#include "recorder.h"
#include "streams.h"

namespace tb::stream {
namespace {

template <auto function> struct Guarded;
template <class... Arguments, tb_status (*function)(Arguments...)> struct Guarded<function> {
  static tb_status call(Arguments... arguments) {
    try {
      return function(arguments...);
    } catch (const std::exception &error) {
      return fail(TB_INTERNAL, -1, "tb-stream", error.what());
    }
  }
};
template <class... Arguments, void (*function)(Arguments...)> struct Guarded<function> {
  static void call(Arguments... arguments) {
    try {
      function(arguments...);
    } catch (const std::exception &) { // the caller's records lack a number
    }
  }
};
template <tb_stream *(*function)(int32_t)> struct Guarded<function> {
  static tb_stream *call(int32_t device) {
    try {
      return function(device);
    } catch (const std::exception &error) {
      fail(TB_INTERNAL, device, "tb-stream", error.what());
      return nullptr;
    }
  }
};

tb_stream *current(int32_t device) {
  if (static_cast<uint32_t>(device) < static_cast<uint32_t>(near_devices)) [[likely]]
    if (tb_stream *stream = near_streams[device]) [[likely]]
      return stream;
  return Guarded<current_stream>::call(device);
}

} // namespace

const tb_stream_table stream_table = {
    sizeof(tb_stream_table),
    current,
    Guarded<set_current_stream>::call,
    Guarded<default_stream>::call,
    Guarded<stream_from_pool>::call,
    Guarded<stream_device>::call,
    Guarded<stream_priority>::call,
    Guarded<acquire_event>::call,
    Guarded<release_event>::call,
    &capturing,
    Guarded<add_capture_part>::call,
    Guarded<capture_part>::call,
    new_capture_pool,
    Guarded<capture_begin>::call,
    Guarded<capture_end>::call,
    Guarded<capture_instantiate>::call,
    Guarded<capture_launch>::call,
    Guarded<capture_update>::call,
    capture_pool,
    Guarded<capture_node_count>::call,
    capture_destroy,
    Guarded<acquire_stream>::call,
    Guarded<release_stream>::call,
    Guarded<record_start>::call,
    Guarded<record_stop>::call,
    Guarded<record_push>::call,
    Guarded<record_pop>::call,
    Guarded<record_call>::call,
    Guarded<record_run>::call,
    Guarded<capture_allow_interruption>::call,
    Guarded<capture_interrupt>::call,
    Guarded<capture_complete>::call,
    capture_interruption,
};

const tb_export stream_export = {{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                                 TB_STREAM_API_MAJOR,
                                 TB_STREAM_API_MINOR,
                                 sizeof(tb_stream_table),
                                 "tb-stream",
                                 TB_PACKAGE_VERSION,
                                 TB_PLATFORM,
                                 &stream_table};

} // namespace tb::stream
