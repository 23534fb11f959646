// The CUDA driver's `self`, its devices and handles, and its functions as the table has them.
#pragma once

#include <atomic>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "drivers/common/driver_base.h"
#include "drivers/cuda/library.h"
#include "drivers/cuda/status.h"
#include "tb/driver.h"
#include "tb/graph.h"

namespace tb::drivers::cuda {

class Driver;
struct Device;

// Handles are the caller's to keep valid; `generation` is the device's when it was made (device_reset).
template <class Handle, class Native> struct Object {
  Device &device;
  Native native;
  uint64_t generation;
  static auto of(Handle *handle) { return static_cast<Object *>(static_cast<void *>(handle)); }
  Handle *handle() { return static_cast<Handle *>(static_cast<void *>(this)); }
};

enum class Owner { driver, foreign, nobody }; // of a native stream: ours, wrapped, the default one
struct Stream : Object<tb_stream, CUstream> {
  Owner owner;
  static Stream *of(tb_stream *handle) { return static_cast<Stream *>(Object::of(handle)); }
};
struct Event : Object<tb_event, CUevent> {
  uint64_t flags;
  static Event *of(tb_event *handle) { return static_cast<Event *>(Object::of(handle)); }
};
using Physical = Object<tb_physical, CUmemGenericAllocationHandle>;
using Graph = Object<tb_graph, CUgraph>;
using Executable = Object<tb_graph_exec, CUgraphExec>;

struct Function {
  Device &device;
  uint64_t generation;
  CUfunction native;
  int max_threads;
  std::atomic<uint64_t> dynamic_shared{48 << 10}; // allowed so far
};

struct Module : Object<tb_module, CUmodule> {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Function>> functions;
  static Module *of(tb_module *handle) { return static_cast<Module *>(Object::of(handle)); }
};

struct Block {
  uint64_t generation;
  bool stream_ordered;
};

struct Device {
  Device(int32_t number, CUdevice native)
      : number(number), native(native), stream{{*this, nullptr, 0}, Owner::nobody} {}
  const int32_t number;
  const CUdevice native;
  CUuuid uuid{};
  Stream stream; // the default one
  std::atomic<CUcontext> context{nullptr};
  std::atomic<CUresult> lost{CUDA_SUCCESS};
  std::atomic<uint64_t> generation{0};
  std::atomic<uint32_t> captures{0};
  std::mutex mutex; // of what follows
  std::unordered_map<uintptr_t, Block> blocks;
  std::set<CUstream> capturing;   // that began a capture
  std::set<Stream *> streams;     // made here
  bool strays = false;            // a destroyed stream may still have work
  std::vector<CUmodule> unloaded; // whose launches may not be done
};

// Makes a device's context the thread's, for a scope. Makes the context, if there is none yet.
class Current {
public:
  Current(Driver &driver, Device &device);
  ~Current();
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  tb_status status;
  // For functions that take something back: when the context cannot be made current they have done nothing, and say so
  // with a status that means it (rule E8).
  tb_status refusal() const;

private:
  tb_status enter(Device &device);
  tb_status failed(Device &device, CUresult result, const char *function);
  Driver &driver_;
  CUcontext before_ = nullptr;
  bool changed_ = false;
  CUresult result_ = CUDA_SUCCESS;
  const char *function_ = "";
};

// What is alive, by kind; close wants all of it gone.
struct Live {
  std::atomic<int64_t> streams{0}, events{0}, pinned{0}, physicals{0}, modules{0}, graphs{0}, imports{0};
};

class Driver : public DriverBase {
public:
  Driver(const tb_host *host, Api api);
  tb_status find_devices(); // once
  void find_uuid(Device &device);
  tb_driver *handle() noexcept { return static_cast<tb_driver *>(static_cast<void *>(this)); }
  static Driver &of(tb_driver *self) { return *static_cast<Driver *>(static_cast<void *>(self)); }

  const Api api;
  uint64_t groups = TB_GROUP_CORE;
  bool has_graphs = false;
  std::vector<std::unique_ptr<Device>> devices;
  Live live;

  bool has_async() const { return (groups & TB_GROUP_ASYNC) != 0; }
  // A device of this number, or NULL with a text and the status; one that is lost gives TB_DEVICE_LOST.
  Device *device(int32_t number, tb_status *status);
  Device *usable(int32_t number, tb_status *status);
  tb_status check_usable(Device &device);
  // The object of a handle, if it is one and its device is usable and was not reset since.
  template <class Kind, class Handle> Kind *usable_object(Handle *handle, const char *what, tb_status *status) {
    if ((*status = require(handle, what))) return nullptr;
    auto *object = Kind::of(handle);
    if ((*status = check_usable(object->device))) return nullptr;
    if (object->generation == object->device.generation) return static_cast<Kind *>(object);
    *status = fail(host, TB_DEVICE_LOST, "the %s is from before the reset of device %d: destroy it and make a new one",
                   what, object->device.number);
    return nullptr;
  }
  // The stream that a function of CORE works on; NULL stands for it without ASYNC.
  Stream *working_stream(int32_t device, tb_stream *stream, tb_status *status);
  // Without ASYNC nothing is left queued.
  tb_status finish(Device &device);

  // Turns a result of the library into a status with a text. A sticky error marks the device as lost.
  tb_status report(Device &device, CUresult result, const char *function, const char *remedy = nullptr);
  tb_status report(CUresult result, const char *function);
  // Refuses to query or synchronise a capturing stream with TB_FAILED_PRECONDITION: libcuda would drop the capture.
  tb_status refuse_capturing(Stream &stream);
  bool is_capturing(Stream &stream);
  // Unloads the modules that the caller has unloaded, once nothing runs on the device.
  void reap_modules(Device &device, bool idle);

  // Host memory that the device knows, reserved addresses and mappings: libcuda's answers about them differ by version.
  struct HostRange {
    uint64_t size;
    bool registered;
  };
  std::mutex mutex;
  std::map<uintptr_t, HostRange> host_ranges;
  std::map<uintptr_t, uint64_t> reservations, mappings;
  struct HostCall {
    Driver &driver;
    void (*function)(void *user, tb_status status);
    void *user;
  };
  std::vector<std::unique_ptr<HostCall>> captured_calls; // graphs may run them until the end
};

// Runs the body of a function of the table with its driver.
template <class Body> tb_status with(tb_driver *self, Body &&body) noexcept {
  Driver &driver = Driver::of(self);
  return guarded(driver.host, [&] { return body(driver); });
}

// What a function was given, checked before a context is made for it.
struct Given {
  struct Pointer {
    const void *pointer;
    const char *name;
  };
  std::initializer_list<Pointer> pointers = {}; // none may be NULL
  uint64_t flags = 0, known = 0;

  tb_status check(const Driver &driver) const {
    for (const Pointer &each : pointers)
      if (const tb_status status = driver.require(each.pointer, each.name)) return status;
    return driver.refuse_flags(flags, known);
  }
};

// body(driver, device), with the device's context current.
template <class Body> tb_status with_device(tb_driver *self, int32_t number, const Given &given, Body &&body) noexcept {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.usable(number, &status);
    if (!device || (status = given.check(driver))) return status;
    const Current current(driver, *device);
    return current.status ? current.status : body(driver, *device);
  });
}

// body(driver, object) for the object of a handle, called `what`, with its device's context current.
template <class Kind, class Handle, class Body>
tb_status with_object(tb_driver *self, Handle *handle, const char *what, const Given &given, Body &&body) noexcept {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Kind *object = driver.usable_object<Kind>(handle, what, &status);
    if (!object || (status = given.check(driver))) return status;
    const Current current(driver, object->device);
    return current.status ? current.status : body(driver, *object);
  });
}

tb_graph_api graph_table();

#include "drivers/common/declare_slots.inc"

} // namespace tb::drivers::cuda
