// Drivers whose host calls break a rule.
#include <atomic>
#include <map>
#include <mutex>

#include "contract/mutant.h"

namespace tb::contract::host_calls_mutants {
namespace {

struct HostCall {
  void (*function)(void *user, tb_status status);
  void *user;
};

TB_MUTANT(host_call_inline, "cpu", "stream_host_call.2", "HST-03", "a host call runs inside the enqueueing call") {
  api.stream_host_call = [](tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
    const tb_status status = real().stream_synchronize(self, stream);
    if (status == TB_OK) function(user, TB_OK);
    return status;
  };
}

TB_MUTANT(host_call_twice, "cpu", "stream_host_call.1", "HST-06", "a host call runs twice") {
  api.stream_host_call = [](tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
    const tb_status status = real().stream_host_call(self, stream, function, user);
    return status == TB_OK ? real().stream_host_call(self, stream, function, user) : status;
  };
}

TB_MUTANT(host_call_last_in_first_out, "cpu", "stream_host_call.1", "HST-02",
          "a host call overtakes the one before it") {
  static std::mutex mutex;
  static std::map<tb_stream *, HostCall> held;
  api.stream_host_call = [](tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
    std::lock_guard lock(mutex);
    const auto earlier = held.find(stream);
    if (earlier == held.end()) {
      held[stream] = {function, user};
      return static_cast<tb_status>(TB_OK);
    }
    const HostCall late = earlier->second;
    held.erase(earlier);
    const tb_status status = real().stream_host_call(self, stream, function, user);
    return status == TB_OK ? real().stream_host_call(self, stream, late.function, late.user) : status;
  };
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    {
      std::lock_guard lock(mutex);
      const auto left = held.find(stream);
      if (left != held.end()) {
        const HostCall late = left->second;
        held.erase(left);
        real().stream_host_call(self, stream, late.function, late.user);
      }
    }
    return real().stream_synchronize(self, stream);
  };
}

TB_MUTANT(host_call_status_lost, "cpu", "stream_host_call.3", "HST-05", "a host call receives 0 after a failure") {
  api.stream_host_call = [](tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
    return real().stream_host_call(
        self, stream,
        [](void *given, tb_status) {
          const HostCall call = *static_cast<HostCall *>(given);
          delete static_cast<HostCall *>(given);
          call.function(call.user, TB_OK);
        },
        new HostCall{function, user});
  };
}

TB_MUTANT(host_call_not_waited_for, "cpu", "stream_host_call.4", "HST-04", "a host call runs beside the stream") {
  static tb_stream *beside = nullptr;
  beside = nullptr;
  api.stream_host_call = [](tb_driver *self, tb_stream *, void (*function)(void *, tb_status), void *user) {
    if (!beside)
      if (const tb_status status = real().stream_create(self, 0, 0, 0, &beside)) return status;
    return real().stream_host_call(self, beside, function, user);
  };
}

TB_MUTANT(host_call_reports, "cpu", "stream_host_call.6", "HST-09", "a failure that a host call received is reported") {
  static std::atomic<bool> received;
  received = false;
  api.stream_host_call = [](tb_driver *self, tb_stream *stream, void (*function)(void *, tb_status), void *user) {
    return real().stream_host_call(
        self, stream,
        [](void *given, tb_status status) {
          const HostCall call = *static_cast<HostCall *>(given);
          delete static_cast<HostCall *>(given);
          if (status) received = true;
          call.function(call.user, status);
        },
        new HostCall{function, user});
  };
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) -> tb_status {
    const tb_status status = real().stream_synchronize(self, stream);
    return status && received.exchange(false) ? TB_OK : status;
  };
}

} // namespace
} // namespace tb::contract::host_calls_mutants
