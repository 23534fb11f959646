// Every stream of the driver whose worker may still run.
#pragma once

#include <mutex>
#include <vector>

#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

class StreamList {
public:
  // With one handle. The list's own reference keeps the stream until its last handle is dropped and it has drained. The
  // result is borrowed.
  Stream *create(Device &device, int32_t priority, bool is_default);
  // One more handle of the live stream that has this native number, or NULL.
  Stream *add_handle(uint64_t native);
  // Ends the stream without waiting when this was its last handle; it is joined by a later call of this list, once
  // drained.
  void drop_handle(Stream &stream);
  // All streams of a device, also the retired ones that still drain.
  std::vector<Ref<Stream>> of_device(const Device &device);
  // Handles given and not dropped, without those of the devices' default streams themselves.
  size_t handle_count();
  size_t worker_count();
  // Ends, drains and joins everything.
  void close();
  // Waits until the workers of destroyed streams have left.
  void join_destroyed();

private:
  struct Live {
    Ref<Stream> stream;
    size_t handles;
  };

  // With the lock held: joins the destroyed streams whose workers have left; waits for all of them.
  void reap();
  void join_all();

  std::mutex mutex_;
  std::vector<Live> live_;
  std::vector<Ref<Stream>> draining_;
};

} // namespace tb::drivers::cpu
