// The sim driver's `self`, its handles, and its functions as the table has them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "drivers/common/driver_base.h"
#include "drivers/common/host_module.h"
#include "drivers/sim/device/options.h"
#include "drivers/sim/memory/device_memory.h"
#include "drivers/sim/queue/operations.h"
#include "drivers/sim/queue/queue.h"
#include "drivers/sim/schedule/scheduler.h"

namespace tb::drivers::sim {

class Driver : public DriverBase {
public:
  Driver(const tb_host *host, const Options &options);
  tb_driver *handle() noexcept { return reinterpret_cast<tb_driver *>(this); }

  const Options options;
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  Scheduler scheduler; // before everything that its threads use

  // ---- handles; each finder gives NULL with a text and the status when there is none ----

  // A device of this number, lost or not.
  Device *device(int32_t number, tb_status *status) const;
  // One that can be used: TB_DEVICE_LOST otherwise.
  Device *usable(int32_t number, tb_status *status) const;
  std::shared_ptr<Stream> stream(tb_stream *handle, tb_status *status);
  std::shared_ptr<Stream> usable(tb_stream *handle, tb_status *status);
  // Usable, and of this device.
  std::shared_ptr<Stream> usable(int32_t device, tb_stream *handle, tb_status *status);
  std::shared_ptr<Event> event(tb_event *handle, tb_status *status);
  std::shared_ptr<Event> usable(tb_event *handle, tb_status *status);

  Stream *add_stream(std::shared_ptr<Queue> queue, bool is_default, bool is_wrapper);
  Stream *default_stream(int32_t device);
  tb_status destroy_stream(tb_stream *handle);
  std::shared_ptr<Queue> native_queue(uint64_t native);
  Event *add_event(Device &device, uint64_t flags);
  tb_status destroy_event(tb_event *handle);
  Event::Point point_of(const Event &event);
  void set_point(Event &event, Event::Point point);
  // Between closure_reserve and closure_commit.
  void open_closure(std::shared_ptr<ClosureOperation> closure);
  std::shared_ptr<ClosureOperation> take_closure(const Stream &stream, void *storage); // NULL: none such
  // Where the modules of a device are loaded.
  Module::Place place_of(int32_t device) const { return {host, device, devices[static_cast<size_t>(device)].get()}; }
  tb_module *add_module(Ref<Module> module);
  Ref<Module> module(tb_module *handle, tb_status *status);
  void forget_module(tb_module *handle);
  struct Counts {
    size_t modules, streams, events; // without default streams
  };
  Counts counts();

  // ---- queueing and waiting ----

  template <class Kind, class... Arguments>
  tb_status enqueue(const std::shared_ptr<Stream> &stream, Arguments &&...arguments) {
    return scheduler.enqueue(stream->queue, std::make_shared<Kind>(stream, std::forward<Arguments>(arguments)...),
                             nullptr);
  }
  // Waits on behalf of a host thread, then reports the first failure that the wait covers.
  tb_status synchronize(const std::vector<Scheduler::Target> &targets, Device &device, bool whole_device);
  tb_status query(const Scheduler::Target &target);
  // Plans the second half of freeing.
  void bury_later(int32_t device, void *address);
  // The device's memory and streams are gone; it can be used again.
  void reset(Device &device);

  // Access from one device to another's memory.
  bool reaches(int32_t device, int32_t peer);
  tb_status enable_peer(int32_t device, int32_t peer, bool on);

  // TB_DEVICE_LOST with its text.
  tb_status lost(int32_t number) const;

private:
  tb_status report_failure(const std::vector<Scheduler::Target> &targets, Device &device, bool whole_device);

  std::mutex mutex_; // of the handles, the events' points and the peers
  std::unordered_map<tb_stream *, std::shared_ptr<Stream>> streams_;
  std::unordered_map<tb_event *, std::shared_ptr<Event>> events_;
  std::unordered_map<void *, std::shared_ptr<ClosureOperation>> closures_; // open ones, by storage
  std::unordered_map<tb_module *, Ref<Module>> modules_;
  std::vector<Stream *> defaults_;
  std::vector<uint32_t> peers_; // by device, a bit for each peer that was enabled
};

// Runs the body of a function of the table with its driver. Exceptions become statuses here.
template <class Body> tb_status with(tb_driver *self, Body &&body) noexcept {
  if (!self) return TB_INVALID_ARGUMENT; // there is no host to take a text
  Driver &driver = *reinterpret_cast<Driver *>(self);
  return guarded(driver.host, [&]() -> tb_status { return body(driver); });
}

#include "drivers/common/declare_slots.inc"

tb_status get_sim_extension(Driver &driver, uint32_t version, void *table, uint32_t size);

} // namespace tb::drivers::sim
