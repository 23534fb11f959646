#include "graph/shared_memory.h"

#include <map>
#include <mutex>

#include "device/components.h"

namespace tb {
namespace {

std::mutex turn_mutex;
std::map<int32_t, tb_stream *> last_stream; // under turn_mutex

std::mutex pool_mutex;
std::map<int32_t, uint64_t> pools; // under pool_mutex

} // namespace

void wait_stream(int32_t device, tb_stream *stream, tb_stream *earlier) {
  const Driver driver = open_driver();
  tb_event *event = nullptr;
  check(components.stream.event_acquire(device, 0, &event), "event_acquire", device);
  tb_status status = driver.api->event_record(driver.self, event, earlier);
  if (status == TB_OK) status = driver.api->stream_wait_event(driver.self, stream, event);
  components.stream.event_release(event);
  check(status, "stream_wait_event", device);
}

Turn::Turn(int32_t device, tb_stream *stream) {
  if (!turn_mutex.try_lock()) {
    // Whoever has it may wait for room in a queue, and then for Python's lock.
    void *given_up = components.device.before_wait();
    turn_mutex.lock();
    components.device.after_wait(given_up);
  }
  try {
    tb_stream *&last = last_stream[device];
    if (last && last != stream) {
      if (components.device.is_stream(last)) {
        wait_stream(device, stream, last);
      } else {
        const Driver driver = open_driver();
        check(driver.api->device_synchronize(driver.self, device), "device_synchronize", device);
      }
    }
    last = stream;
  } catch (...) {
    turn_mutex.unlock();
    throw;
  }
}

Turn::~Turn() { turn_mutex.unlock(); }

uint64_t graph_pool(int32_t device) {
  const std::lock_guard lock(pool_mutex);
  uint64_t &pool = pools[device];
  if (!pool) pool = components.stream.new_capture_pool();
  return pool;
}

} // namespace tb
