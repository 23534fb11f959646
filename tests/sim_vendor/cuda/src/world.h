// world.h -- the state of the simulated library: devices, contexts, handles, and what each address refers to.
//
// One lock guards everything except the queues. No thread waits for a queue while it holds the lock.
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
  std::set<size_t> frontier; // the captured nodes on which the next node depends
  CUstream handle() { return legacy ? nullptr : reinterpret_cast<CUstream>(this); }
};

struct SharedRecord; // the record of an event that several processes share (ipc_api.cpp)

struct Event {
  Context *context;
  unsigned flags;
  Record record;
  std::shared_ptr<Capture> capture; // the capture in which the event was recorded
  std::set<size_t> frontier;
  std::shared_ptr<SharedRecord> shared;
};

// Whether the stream has passed the event's point; true for an event without a record.
bool passed(const Event &event);

struct Context {
  explicit Context(int device) : device(device) {}
  const int device;
  bool alive = false;
  uint64_t retained = 0;
  std::atomic<CUresult> failed{CUDA_SUCCESS};
  std::set<Context *> peers;
  std::unique_ptr<Stream> legacy;
  std::vector<std::shared_ptr<Queue>> queues; // including those of destroyed streams that still have work
  std::set<std::shared_ptr<Capture>> captures;
  std::mutex callbacks; // held by a host function, so that those of all streams run one at a time
};

struct Device {
  explicit Device(int number, uint64_t memory) : context(number), arena(memory) {}
  Context context;
  Arena arena;
};

// The memory that begins at an address.
enum class Kind { device, pool, mapping, host, registered, variable, imported };
struct Range {
  Kind kind;
  uint64_t size;
  int device;
  std::byte *inner;
  uint64_t offset = 0;                // in the device's file
  uint64_t charged = 0;               // the size rounded up
  std::shared_ptr<uint64_t> physical; // of a mapping: keeps its physical memory alive
  std::set<int> readers, writers;     // devices with access to a mapping
  bool exported = false;
};

struct Physical {
  int device;
  uint64_t size;
  std::shared_ptr<uint64_t> memory; // the offset; the last owner frees the memory
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
  // Finds the bytes that `device` accesses. False if some are not memory, or if it may not access them.
  bool resolve(uintptr_t address, uint64_t size, int device, bool write, std::vector<Piece> *out);
  // Whether the whole range is device memory. Access is not checked here but when the work runs.
  bool known(uintptr_t address, uint64_t size);
  void drop(std::map<uintptr_t, Range>::iterator range); // removes the range and frees its memory
};

World &world();
using Lock = std::unique_lock<std::mutex>;

const char *setting(const char *name);
uint64_t setting(const char *name, uint64_t otherwise);
void arm_by_environment();

extern thread_local std::vector<Context *> current; // a stack; the last context is current

// ---- the first steps of many functions; with the lock held ----

// The current context, or NULL and an error if there is none that is usable.
Context *current_context(CUresult *result);
// The stream of a handle. For NULL and CU_STREAM_LEGACY it is the current context's legacy stream.
std::shared_ptr<Stream> find_stream(CUstream handle, CUresult *result);
std::shared_ptr<Event> find_event(CUevent handle, CUresult *result);
// Destroys a device's context and everything in it. Releases the lock while it waits for the queues.
void destroy_context(Context &context, Lock &lock);
// Waits for all queued work of the context, with the lock released.
CUresult drain(Context &context, Lock &lock);

template <class T> std::shared_ptr<T> find(std::map<const void *, std::shared_ptr<T>> &handles, const void *handle) {
  const auto found = handles.find(handle);
  return found == handles.end() ? nullptr : found->second;
}

} // namespace simcuda
