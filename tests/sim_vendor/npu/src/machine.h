// machine.h -- the simulated machine: devices, their default contexts, and each thread's current one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "acl.h"
#include "memory.h"
#include "stream.h"

namespace sim {

// A device's context, to which an aclrtContext points. It exists from the first aclrtSetDevice until aclrtResetDevice
// was called as often.
struct Context {
  explicit Context(int32_t device) : device(device), default_stream(std::make_shared<Stream>(device)) {}
  const int32_t device;
  std::shared_ptr<Stream> default_stream; // the stream of the NULL handle
  std::unordered_map<void *, std::shared_ptr<Stream>> streams;
};

struct Event {
  int32_t device;
  uint32_t flags;
  bool renewable; // an event of the new kind, which may be recorded again
  std::mutex mutex;
  std::shared_ptr<Point> point; // NULL if never recorded
};

struct Settings {
  int32_t devices = 2;
  uint64_t memory = uint64_t(256) << 20;
  uint64_t streams = 1984;
  uint64_t events = 65536; // the most events of the old kind
  bool peers = true;
  static Settings read();
};

class [[gnu::visibility("default")]] Machine { // visible for the library of operators
public:
  static Machine &get();
  static bool stub();

  bool initialized() const;
  Error initialize();
  Error finalize();
  Settings settings(); // the settings of aclInit; before it, those that it would read now

  // The current context of this thread; NULL if there is none.
  Context *current();
  Error set_current(void *context);
  Error set_device(int32_t device);
  Error reset_device(int32_t device);
  uint64_t device_references();

  // The stream of a handle, which must belong to the current context. For a NULL handle it is the default stream.
  Error find_stream(void *handle, std::shared_ptr<Stream> *out);
  Error create_stream(void **out);
  Error destroy_stream(void *handle);
  std::vector<std::shared_ptr<Stream>> streams_of_current();
  uint64_t stream_count();

  std::shared_ptr<Event> find_event(void *handle);
  Error create_event(uint32_t flags, bool renewable, void **out);
  Error destroy_event(void *handle);
  uint64_t event_count();

  bool valid_device(int32_t device) { return device >= 0 && device < settings().devices; }
  Memory &memory() { return *memory_; }
  // Directions (from a device to a peer) that were enabled.
  std::mutex peers_mutex;
  std::unordered_set<int64_t> peers;

private:
  Machine();
  mutable std::mutex mutex_;
  bool initialized_ = false;
  pid_t process_ = 0;
  Settings settings_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::unique_ptr<Context>> contexts_; // by device; NULL if the device is not set
  std::vector<uint64_t> references_;
  std::unordered_map<void *, std::shared_ptr<Event>> events_;
};

} // namespace sim
