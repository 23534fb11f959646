// Tracks live streams: those that the handed-out tables gave and did not take back.
#include <mutex>
#include <unordered_set>

#include "interception/interception.h"

namespace tb::device {
namespace {

// Never destroyed: streams may be made and ended while the process ends.
struct Streams {
  std::mutex mutex;
  std::unordered_set<const tb_stream *> live;
};
Streams &streams() {
  static auto *all = new Streams;
  return *all;
}

tb_status note(tb_status status, tb_stream *const *out) {
  if (status != TB_OK) return status;
  std::lock_guard lock(streams().mutex);
  streams().live.insert(*out);
  return TB_OK;
}

tb_status stream_default(tb_driver *self, int32_t device, tb_stream **out) {
  return note(driver_of(self).untracked.stream_default(self, device, out), out);
}

tb_status stream_create(tb_driver *self, int32_t device, int32_t priority, uint64_t flags, tb_stream **out) {
  return note(driver_of(self).untracked.stream_create(self, device, priority, flags, out), out);
}

tb_status stream_wrap(tb_driver *self, int32_t device, uint64_t native, tb_stream **out) {
  return note(driver_of(self).untracked.stream_wrap(self, device, native, out), out);
}

// Before the driver's own: afterwards another thread's new stream may have the address.
tb_status stream_destroy(tb_driver *self, tb_stream *stream) {
  bool was_live;
  {
    std::lock_guard lock(streams().mutex);
    was_live = streams().live.erase(stream);
  }
  tb_status status = driver_of(self).untracked.stream_destroy(self, stream);
  if (!was_live || !tb_is_refusal(status)) return status;
  std::lock_guard lock(streams().mutex);
  streams().live.insert(stream);
  return status;
}

} // namespace

void track_streams(Driver &driver) {
  driver.untracked = driver.table;
  driver.table.stream_default = stream_default;
  driver.table.stream_create = stream_create;
  driver.table.stream_destroy = stream_destroy;
  if (driver.offers(TB_GROUP_NATIVE)) driver.table.stream_wrap = stream_wrap;
}

int32_t is_stream(const tb_stream *stream) {
  std::lock_guard lock(streams().mutex);
  return streams().live.contains(stream);
}

} // namespace tb::device
