// stream_list.h -- every stream of the driver whose worker may still run.
#ifndef TB_CPU_STREAM_LIST_H
#define TB_CPU_STREAM_LIST_H

#include <mutex>
#include <vector>

#include "stream.h"

namespace tb::cpu {

class StreamList {
public:
  // The list's own reference keeps the stream until retire() and its drain. The result is borrowed.
  Stream *create(Device &device, int32_t priority, bool is_default);
  // Ends the stream without waiting; it is joined by a later call of this list, once drained.
  void retire(Stream &stream);
  // All streams of a device, also the retired ones that still drain.
  std::vector<Ref<Stream>> of_device(const Device &device);
  // Made by create() and not retired, without the devices' default streams.
  size_t live_count();
  size_t worker_count();
  // Ends, drains and joins everything.
  void close();

private:
  void reap(); // with the lock held

  std::mutex mutex_;
  std::vector<Ref<Stream>> live_;
  std::vector<Ref<Stream>> draining_;
};

} // namespace tb::cpu
#endif
