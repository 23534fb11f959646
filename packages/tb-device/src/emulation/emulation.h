// What the host does itself where a driver lacks a function: emulation.
//
// A function that the driver has stays the driver's own pointer in the handed-out table, with these exceptions for
// drivers that lack the group which would make them unnecessary:
//   - without ASYNC, functions that take a stream are forwarded with NULL instead of the host's stream;
//   - without HOSTCALL, functions that take a stream first wait for host calls pending on it;
//   - without PTR or device_memory_info, allocation is forwarded so that the host's address map is right.
// Emulated functions get the driver's own self and find their state by it (registry.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "registry/registry.h"

namespace tb::device {

// Blocks of pinned host memory and device memory, by first address.
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

// Host functions in stream order for drivers without HOSTCALL. Each stream with pending functions has a thread, which
// waits for the stream, runs the functions in order, and ends. Work that is enqueued on the stream meanwhile waits for
// it.
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
  std::atomic<int> streams_{0}; // with pending calls: the common case costs one load
};

// Streams and events of a driver without ASYNC. All work is done when its call returns, so they are always complete.
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
  bool destroy_stream(tb_stream *stream); // false: not such a stream, or a default one
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

// The state of a driver's emulated functions.
struct Emulation {
  AddressMap addresses;
  HostCalls host_calls;
  HostObjects objects;
  uint64_t live_objects() const { return objects.count(); }
};

// Each fills the functions of its subject that driver.table lacks. The order matters: later ones call earlier ones.
void emulate_facts(Driver &driver);      // device_query, device_activate, get_extension
void emulate_memory(Driver &driver);     // device_memory_info, PIN, PTR
void emulate_copies(Driver &driver);     // COPY2D, PEER
void emulate_host_calls(Driver &driver); // HOSTCALL
void emulate_streams(Driver &driver);    // ASYNC

// "mychip has no function vmm_map (group VMM not offered)": the text of a function that is neither offered nor
// emulated.
tb_status not_offered(tb_driver *self, Slot slot, tb_status status = TB_UNSUPPORTED);

// An emulated function was given a handle that is not alive.
tb_status unknown_handle(const Driver &driver, Slot slot, const char *what);

} // namespace tb::device
