// world.h -- everything that the simulated library knows: devices, contexts, handles, and what each address is.
//
// One lock guards it all but the queues. Nobody waits for a queue while holding it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "arena.h"
#include "entry.h"
#include "queue.h"

namespace simcuda {

struct Capture;

struct Stream {
  Context *context;
  std::shared_ptr<Queue> queue;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  std::shared_ptr<Capture> capture;
  std::set<size_t> frontier; // nodes that the next one comes after
  CUstream handle() { return legacy ? nullptr : reinterpret_cast<CUstream>(this); }
};

struct SharedRecord; // of an event between processes (ipc_api.cpp)

struct Event {
  Context *context;
  unsigned flags;
  Record record;
  std::shared_ptr<Capture> capture; // recorded while capturing
  std::set<size_t> frontier;
  std::shared_ptr<SharedRecord> shared;
};

// An event's point is passed; an event never recorded has passed.
bool passed(const Event &event);

struct Context {
  explicit Context(int device) : device(device) {}
  const int device;
  bool alive = false;
  uint64_t retained = 0;
  std::atomic<CUresult> failed{CUDA_SUCCESS};
  std::set<Context *> peers;
  std::unique_ptr<Stream> legacy;
  std::vector<std::shared_ptr<Queue>> queues; // also those of destroyed streams, until they end
  std::set<std::shared_ptr<Capture>> captures;
  std::mutex callbacks; // host functions of all streams run one at a time
};

struct Device {
  explicit Device(int number, uint64_t memory) : context(number), arena(memory) {}
  Context context;
  Arena arena;
};

// What the bytes from an address on are.
enum class Kind { device, pool, mapping, host, registered, variable, imported };
struct Range {
  Kind kind;
  uint64_t size;
  int device;
  std::byte *inner;
  uint64_t offset = 0;                // in the device's file
  uint64_t charged = 0;               // with what is rounded up
  std::shared_ptr<uint64_t> physical; // of a mapping: keeps its memory
  std::set<int> readers, writers;     // devices with access to a mapping
  bool exported = false;
};

struct Physical {
  int device;
  uint64_t size;
  std::shared_ptr<uint64_t> memory; // the offset; gives it back with the last owner
};

struct Piece {
  std::byte *inner;
  uint64_t size;
};

struct Module;
struct Kernel;
struct Graph;
struct Executable;

struct World {
  World();
  std::mutex mutex;
  int version;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uintptr_t, Range> ranges;
  std::map<uintptr_t, uint64_t> reservations;
  std::map<CUmemGenericAllocationHandle, Physical> physicals;
  std::map<const void *, std::shared_ptr<Stream>> streams;
  std::map<const void *, std::shared_ptr<Event>> events;
  std::map<const void *, std::shared_ptr<Module>> modules;
  std::map<const void *, std::shared_ptr<Kernel>> kernels;
  std::map<const void *, std::shared_ptr<Graph>> graphs;
  std::map<const void *, std::shared_ptr<Executable>> executables;
  uint64_t windows = 0, abandoned = 0, next_physical = 1;

  // ---- with the lock held ----
  void protect(bool accessible);
  std::map<uintptr_t, Range>::iterator holding(uintptr_t address);
  // Where bytes are for `device`; false: some are nowhere, or it may not use them.
  bool resolve(uintptr_t address, uint64_t size, int device, bool write, std::vector<Piece> *out);
  // All of the range is memory that a device can name; access is another matter, which shows when it is used.
  bool known(uintptr_t address, uint64_t size);
  void drop(std::map<uintptr_t, Range>::iterator range); // gives its memory back
};

World &world();
using Lock = std::unique_lock<std::mutex>;

const char *setting(const char *name);
uint64_t setting(const char *name, uint64_t otherwise);
void arm_by_environment();

extern thread_local std::vector<Context *> current; // the last is current

// ---- what many functions begin with; with the lock held ----

// The current context, usable; or NULL with the failure.
Context *current_context(CUresult *result);
// A stream's handle, or the current context's legacy stream for NULL and CU_STREAM_LEGACY.
std::shared_ptr<Stream> find_stream(CUstream handle, CUresult *result);
std::shared_ptr<Event> find_event(CUevent handle, CUresult *result);
// Frees a device's context with all in it. Unlocks while it waits for its queues.
void destroy_context(Context &context, Lock &lock);
// Waits for everything queued on the context. Unlocks meanwhile.
CUresult drain(Context &context, Lock &lock);

template <class T> std::shared_ptr<T> find(std::map<const void *, std::shared_ptr<T>> &handles, const void *handle) {
  const auto found = handles.find(handle);
  return found == handles.end() ? nullptr : found->second;
}

} // namespace simcuda
