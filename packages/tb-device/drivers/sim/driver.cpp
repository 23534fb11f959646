// Handles of the sim driver, and the failures that a synchronise reports.
#include "drivers/sim/driver.h"

namespace tb::drivers::sim {

namespace {

std::vector<std::unique_ptr<Device>> make_devices(int32_t count) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int32_t number = 0; number < count; ++number) devices.push_back(std::make_unique<Device>(number));
  return devices;
}

} // namespace

Driver::Driver(const tb_host *host, const Options &options)
    : DriverBase(host), options(options), devices(make_devices(options.devices)), memory(host, options),
      scheduler(host, options, memory), peers_(static_cast<size_t>(options.devices)) {
  for (const auto &device : devices) defaults_.push_back(add_stream(scheduler.create_queue(*device), true, false));
}

tb_status Driver::lost(int32_t number) const {
  return fail(host, TB_DEVICE_LOST,
              "device %d is lost, or this handle is from before it was: call device_reset, then make new streams and "
              "memory",
              number);
}

Device *Driver::device(int32_t number, tb_status *status) const {
  if (number >= 0 && number < options.devices) return devices[static_cast<size_t>(number)].get();
  *status = fail(host, TB_OUT_OF_RANGE,
                 "there is no device %d: the sim driver has %d, from 0 (option \"devices\", TB_SIM_DEVICES)", number,
                 options.devices);
  return nullptr;
}

Device *Driver::usable(int32_t number, tb_status *status) const {
  Device *found = device(number, status);
  if (!found || !found->lost.load()) return found;
  *status = lost(number);
  return nullptr;
}

std::shared_ptr<Stream> Driver::stream(tb_stream *handle, tb_status *status) {
  if ((*status = require(handle, "stream"))) return nullptr;
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  if (found != streams_.end()) return found->second;
  *status =
      fail(host, TB_INVALID_ARGUMENT, "%p is no stream of this driver, or was destroyed", static_cast<void *>(handle));
  return nullptr;
}

std::shared_ptr<Stream> Driver::usable(tb_stream *handle, tb_status *status) {
  auto found = stream(handle, status);
  if (!found || !found->queue->lost()) return found;
  *status = lost(found->queue->device.number);
  return nullptr;
}

std::shared_ptr<Stream> Driver::usable(int32_t number, tb_stream *handle, tb_status *status) {
  if (!device(number, status)) return nullptr;
  auto found = usable(handle, status);
  if (!found || found->queue->device.number == number) return found;
  *status = fail(host, TB_INVALID_ARGUMENT, "the stream belongs to device %d, not to device %d",
                 found->queue->device.number, number);
  return nullptr;
}

std::shared_ptr<Event> Driver::event(tb_event *handle, tb_status *status) {
  if ((*status = require(handle, "event"))) return nullptr;
  std::lock_guard lock(mutex_);
  const auto found = events_.find(handle);
  if (found != events_.end()) return found->second;
  *status =
      fail(host, TB_INVALID_ARGUMENT, "%p is no event of this driver, or was destroyed", static_cast<void *>(handle));
  return nullptr;
}

std::shared_ptr<Event> Driver::usable(tb_event *handle, tb_status *status) {
  auto found = event(handle, status);
  if (!found || (!found->device.lost.load() && found->generation == found->device.generation.load())) return found;
  *status = lost(found->device.number);
  return nullptr;
}

Stream *Driver::add_stream(std::shared_ptr<Queue> queue, bool is_default, bool is_wrapper) {
  auto stream = std::make_shared<Stream>(Stream{std::move(queue), is_default, is_wrapper});
  Stream *made = stream.get();
  std::lock_guard lock(mutex_);
  streams_.emplace(made->handle(), std::move(stream));
  return made;
}

Stream *Driver::default_stream(int32_t number) { return defaults_[static_cast<size_t>(number)]; }

tb_status Driver::destroy_stream(tb_stream *handle) {
  tb_status status = TB_OK;
  const auto found = stream(handle, &status);
  if (!found) return status;
  if (found->is_default) return fail(host, TB_INVALID_ARGUMENT, "the default stream is borrowed: it lives until close");
  {
    std::lock_guard lock(mutex_);
    streams_.erase(handle);
  }
  if (!found->is_wrapper) scheduler.retire_queue(found->queue);
  return TB_OK;
}

std::shared_ptr<Queue> Driver::native_queue(uint64_t native) {
  std::lock_guard lock(mutex_);
  for (const auto &[handle, stream] : streams_)
    if (stream->queue->number + uint64_t(1) == native && !stream->is_wrapper) return stream->queue;
  return nullptr;
}

Event *Driver::add_event(Device &device, uint64_t flags) {
  auto event = std::make_shared<Event>(Event{device, flags, device.generation.load(), {}});
  Event *made = event.get();
  std::lock_guard lock(mutex_);
  events_.emplace(reinterpret_cast<tb_event *>(made), std::move(event));
  return made;
}

tb_status Driver::destroy_event(tb_event *handle) {
  tb_status status = TB_OK;
  const auto found = event(handle, &status); // released after the lock
  if (!found) return status;
  std::lock_guard lock(mutex_);
  events_.erase(handle);
  return TB_OK;
}

Event::Point Driver::point_of(const Event &event) {
  std::lock_guard lock(mutex_);
  return event.point;
}

void Driver::set_point(Event &event, Event::Point point) {
  std::lock_guard lock(mutex_);
  std::swap(event.point, point); // the old point is released after the lock
}

void Driver::open_closure(std::shared_ptr<ClosureOperation> closure) {
  std::lock_guard lock(mutex_);
  void *storage = closure->storage();
  closures_.emplace(storage, std::move(closure));
}

std::shared_ptr<ClosureOperation> Driver::take_closure(const Stream &stream, void *storage) {
  std::lock_guard lock(mutex_);
  const auto found = closures_.find(storage);
  if (found == closures_.end() || found->second->stream->queue != stream.queue) return nullptr;
  auto closure = std::move(found->second);
  closures_.erase(found);
  return closure;
}

tb_module *Driver::add_module(Ref<Module> module) {
  std::lock_guard lock(mutex_);
  tb_module *handle = module->handle();
  modules_.emplace(handle, std::move(module));
  return handle;
}

Ref<Module> Driver::module(tb_module *handle, tb_status *status) {
  if ((*status = require(handle, "module"))) return {};
  std::lock_guard lock(mutex_);
  const auto found = modules_.find(handle);
  if (found != modules_.end()) return found->second;
  *status =
      fail(host, TB_INVALID_ARGUMENT, "%p is no module of this driver, or was unloaded", static_cast<void *>(handle));
  return {};
}

void Driver::forget_module(tb_module *handle) {
  memory.forget_variables(handle);
  std::lock_guard lock(mutex_);
  modules_.erase(handle);
}

Driver::Counts Driver::counts() {
  std::lock_guard lock(mutex_);
  return {modules_.size(), streams_.size() - defaults_.size(), events_.size()};
}

tb_status Driver::report_failure(const std::vector<Scheduler::Target> &targets, Device &device, bool whole_device) {
  // One call reports one failure; those of other streams stay for the next call.
  for (const Scheduler::Target &target : targets)
    if (const tb_status status = target.queue->failures.report(target.position, host, scheduler)) return status;
  if (auto damage = memory.devices[static_cast<size_t>(device.number)]->check_red_zones()) {
    scheduler.note_problem(*damage);
    return fail(host, TB_DATA_LOSS, "%s%s", damage->c_str(), scheduler.suffix().c_str());
  }
  if (const tb_status status = device.bugs.report(UINT64_MAX, host, scheduler)) return status;
  return whole_device ? device.failures.report(UINT64_MAX, host, scheduler) : TB_OK;
}

tb_status Driver::synchronize(const std::vector<Scheduler::Target> &targets, Device &device, bool whole_device) {
  bool own = whole_device && Scheduler::inside(device);
  for (const Scheduler::Target &target : targets)
    own = own || (Scheduler::inside(*target.queue) && !scheduler.reached(target));
  if (own)
    return fail(host, TB_FAILED_PRECONDITION, "work of a stream cannot wait for its own %s: it would wait for itself",
                whole_device ? "device" : "stream");
  scheduler.wait(targets, whole_device ? &device : nullptr);
  for (const Scheduler::Target &target : targets)
    if (target.queue->lost()) return lost(device.number);
  if (device.lost.load()) return lost(device.number);
  return report_failure(targets, device, whole_device);
}

tb_status Driver::query(const Scheduler::Target &target) {
  const bool done = scheduler.query(target);
  if (target.queue->lost()) return lost(target.queue->device.number);
  // A failure is reported only once the position is reached, so that every answer but TB_NOT_READY means "done".
  return done ? target.queue->failures.report(target.position, host, scheduler) : TB_NOT_READY;
}

void Driver::bury_later(int32_t number, void *address) {
  scheduler.after_plan([this, number, address] {
    const auto damage = memory.devices[static_cast<size_t>(number)]->bury(address);
    if (!damage) return;
    scheduler.note_problem("mem_free: " + *damage);
    auto failure = std::make_shared<Failure>();
    failure->status = TB_DATA_LOSS;
    std::snprintf(failure->text, sizeof failure->text, "mem_free: %s%s", damage->c_str(), scheduler.suffix().c_str());
    devices[static_cast<size_t>(number)]->bugs.keep(std::move(failure), 0);
  });
}

void Driver::reset(Device &device) {
  if (!device.lost.load()) return;
  scheduler.reset(device);
  for (FailureSlot *slot : {&device.failures, &device.bugs}) slot->forget(scheduler);
  memory.devices[static_cast<size_t>(device.number)]->lose();
  memory.virtual_memory.lose(device.number);
  // The default stream is the same handle for ever, over a new queue.
  const auto queue = scheduler.create_queue(device);
  std::lock_guard lock(mutex_);
  const auto before = std::exchange(defaults_[static_cast<size_t>(device.number)]->queue, queue);
  scheduler.retire_queue(before);
}

bool Driver::reaches(int32_t number, int32_t peer) {
  std::lock_guard lock(mutex_);
  return number == peer || (peers_[static_cast<size_t>(number)] >> peer & 1);
}

tb_status Driver::enable_peer(int32_t number, int32_t peer, bool on) {
  if (number == peer && on) return fail(host, TB_INVALID_ARGUMENT, "device %d needs no peer access to itself", number);
  std::lock_guard lock(mutex_);
  uint32_t &enabled = peers_[static_cast<size_t>(number)];
  const uint32_t bit = uint32_t(1) << peer;
  if (((enabled & bit) != 0) == on)
    return fail(host, on ? TB_ALREADY_EXISTS : TB_FAILED_PRECONDITION, "access from device %d to %d is %s", number,
                peer, on ? "enabled already" : "not enabled");
  enabled ^= bit;
  return TB_OK;
}

} // namespace tb::drivers::sim
