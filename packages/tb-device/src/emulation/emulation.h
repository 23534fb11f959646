// What the host does in place of a function that a driver lacks.
//
// A function that the driver offers stays the driver's own pointer in the handed-out table, with exceptions. Streams that
// are made and destroyed are noted (live_streams.cpp). All
// give Python's lock up while stream_synchronize, event_synchronize and device_synchronize wait (waits.cpp). The others
// are each only for drivers that lack the group which would make it unnecessary:
//   - without CLOSURE, other functions that may wait for the device give up Python's lock too;
//   - without ASYNC, functions that take a stream are forwarded with NULL instead of the host's stream;
//   - without HOSTCALL, functions that take a stream first wait for host calls pending on it;
//   - without PTR or device_memory_info, allocation is forwarded so that the host's address map is right.
// Stand-ins get the driver's own self and find their state by it (registry.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "registry/registry.h"

namespace tb {

// Host memory, device memory, by first address.
class AddressMap {
public:
  void add(int32_t kind, int32_t device, void *base, uint64_t size);
  bool remove(void *base);
  bool find(const void *pointer, tb_pointer_info &out) const;
  uint64_t bytes(int32_t device) const; // device memory only
  uint64_t count() const;

private:
  struct Range {
    int32_t kind, device;
    uint64_t size;
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;
  std::unordered_map<int32_t, uint64_t> bytes_;
};

// Host functions in stream order for drivers without HOSTCALL: a thread for each stream that has some pending. It
// waits for the stream, runs them in turn, and ends; whatever is enqueued on the stream meanwhile waits (standins.h).
class HostCalls {
public:
  using Function = void (*)(void *user, tb_status status);
  tb_status add(Driver &driver, tb_stream *stream, Function function, void *user);
  bool pending(tb_stream *stream) const;
  void wait(tb_stream *stream);
  void wait_all();

private:
  struct Call {
    Function function;
    void *user;
  };
  void run(Driver &driver, tb_stream *stream);
  mutable std::mutex mutex_;
  std::condition_variable passed_;
  std::unordered_map<tb_stream *, std::deque<Call>> queues_;
  std::atomic<int> streams_{0}; // with calls pending: the common case costs one load
};

// Streams and events of a driver without ASYNC: all work is done when its call returns, so they are always complete.
struct HostStream {
  int32_t device;
};
struct HostEvent {
  int32_t device;
};
class HostObjects {
public:
  tb_stream *default_stream(int32_t device, int32_t device_count);
  tb_stream *create_stream(int32_t device);
  bool destroy_stream(tb_stream *stream); // false: no such stream, or a default one
  bool has_stream(tb_stream *stream) const;
  tb_event *create_event(int32_t device);
  bool destroy_event(tb_event *event);
  bool has_event(tb_event *event) const;
  uint64_t count() const;

private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<HostStream>> defaults_;
  std::unordered_set<tb_stream *> streams_;
  std::unordered_set<tb_event *> events_;
};

struct StandIns {
  AddressMap addresses;
  HostCalls host_calls;
  HostObjects objects;
  uint64_t live_objects() const { return objects.count(); }
};

// Fills driver.table from driver.offered and stand-ins.
void complete_table(Driver &driver);

// Parts of complete_table; each fills what is still NULL.
void stand_in_streams(Driver &driver); // ASYNC, HOSTCALL
void stand_in_memory(Driver &driver);  // device_memory_info, PIN, PTR
void stand_in_copies(Driver &driver);  // COPY2D, PEER
void stand_in_facts(Driver &driver);   // the rest of CORE
// From now on is_stream() knows the streams. In a forked child nobody asks: the table refuses them all.
void watch_streams(Driver &driver);
int32_t is_stream(const tb_stream *stream); // 1: it lives
// After all others: from now on functions that may wait give up Python's lock.
void wait_without_lock(Driver &driver);
// The last: from now on the driver's first use is noted, where a forked child asks for it.
void watch_first_use(Driver &driver);

// "mychip has no function vmm_map (group VMM not offered)": TB_UNSUPPORTED unless told.
tb_status not_offered(tb_driver *self, Slot slot, tb_status status = TB_UNSUPPORTED);

// The record behind self; stand-ins sit only in tables of registered drivers, and those of closed ones refuse.
inline Driver &driver_of(tb_driver *self) { return *find_driver(self); }

} // namespace tb
