// All streams of a driver whose workers may still run.
#pragma once

#include <mutex>
#include <vector>

#include "drivers/cpu/stream/stream.h"

namespace tb::drivers::cpu {

class StreamList {
public:
  // Creates a stream with one handle. The list's own reference keeps the stream until its last handle is dropped and it
  // has drained.
  Stream *create(Device &device, int32_t priority, bool is_default);
  // Adds a handle to the live stream with this native number; NULL if there is no such stream.
  Stream *add_handle(uint64_t native);
  // Ends the stream without waiting if this was its last handle. A later call of this list joins it once it has
  // drained.
  void drop_handle(Stream &stream);
  // All streams of a device, also the retired ones that still drain.
  std::vector<Ref<Stream>> of_device(const Device &device);
  // The number of handles that are not dropped, without those of the default streams.
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
