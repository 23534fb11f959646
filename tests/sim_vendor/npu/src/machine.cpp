// machine.cpp -- initialises the library, sets and resets devices, and keeps the tables of handles.
#include "machine.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../sim_npu.h"
#include "entry.h"

namespace sim {
namespace {

thread_local Context *current_context = nullptr;
thread_local uint64_t current_epoch = 0;
// Changes whenever a context ends. A thread's cached context may then be invalid and is looked up again.
std::atomic<uint64_t> epoch{1};

uint64_t number(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

} // namespace

Settings Settings::read() {
  Settings read;
  read.devices = static_cast<int32_t>(number("TB_SIMNPU_DEVICES", 2));
  read.memory = number("TB_SIMNPU_MEMORY", read.memory);
  read.streams = number("TB_SIMNPU_STREAMS", read.streams);
  read.events = number("TB_SIMNPU_EVENTS", read.events);
  read.peers = !number("TB_SIMNPU_NO_PEERS", 0);
  return read;
}

// Never destroyed: threads may still be in a call when the process ends.
Machine &Machine::get() {
  static Machine *machine = new Machine;
  return *machine;
}

Machine::Machine() : memory_(std::make_unique<Memory>()) {}

bool Machine::stub() { return number("TB_SIMNPU_STUB", 0) != 0; }

// A forked child has none of the parent's threads, so nothing works there before its own aclInit.
bool Machine::initialized() const {
  std::lock_guard lock(mutex_);
  return initialized_ && process_ == getpid();
}

Error Machine::initialize() {
  std::lock_guard lock(mutex_);
  if (initialized_ && process_ == getpid()) return fail(kRepeatInitialize, "EE1004: aclInit a second time");
  initialized_ = true;
  process_ = getpid();
  settings_ = Settings::read();
  contexts_.clear();
  contexts_.resize(static_cast<size_t>(settings_.devices));
  references_.assign(static_cast<size_t>(settings_.devices), 0);
  memory_->start(settings_.devices, settings_.memory);
  task_delay = number("TB_SIMNPU_DELAY", 0);
  task_lag = number("TB_SIMNPU_LAG", 0);
  return kOk;
}

Error Machine::finalize() {
  std::vector<std::unique_ptr<Context>> ended;
  {
    std::lock_guard lock(mutex_);
    if (!initialized_) return fail(kRepeatFinalize, "EE1005: aclFinalize a second time");
    initialized_ = false;
    ended.swap(contexts_);
    references_.clear();
    ++epoch;
  }
  return kOk;
}

Settings Machine::settings() {
  std::lock_guard lock(mutex_);
  return initialized_ ? settings_ : Settings::read();
}

Context *Machine::current() {
  std::lock_guard lock(mutex_);
  if (!current_context || current_epoch == epoch) return current_context;
  Context *found = nullptr;
  for (const auto &each : contexts_)
    if (each.get() == current_context) found = current_context;
  current_context = found;
  current_epoch = epoch;
  return current_context;
}

Error Machine::set_current(void *context) {
  std::lock_guard lock(mutex_);
  for (const auto &each : contexts_)
    if (each && each.get() == context) {
      current_context = each.get();
      current_epoch = epoch;
      return kOk;
    }
  return fail(kParameter, "EE1006: %p is no context", context);
}

Error Machine::set_device(int32_t device) {
  std::lock_guard lock(mutex_);
  if (device < 0 || device >= settings_.devices)
    return fail(kDeviceId, "EE1007: no device %d, there are %d", device, settings_.devices);
  auto &context = contexts_[static_cast<size_t>(device)];
  if (!context) context = std::make_unique<Context>(device);
  ++references_[static_cast<size_t>(device)];
  current_context = context.get();
  current_epoch = epoch;
  return kOk;
}

Error Machine::reset_device(int32_t device) {
  std::unique_ptr<Context> ended;
  {
    std::lock_guard lock(mutex_);
    if (!initialized_) return fail(kUninitialized, "EE1002: aclrtResetDevice before aclInit");
    if (device < 0 || device >= settings_.devices) return fail(kDeviceId, "EE1007: no device %d", device);
    uint64_t &count = references_[static_cast<size_t>(device)];
    if (count == 0) return fail(kParameter, "EE1008: device %d was not set", device);
    if (--count > 0) return kOk;
    ended = std::move(contexts_[static_cast<size_t>(device)]);
    ++epoch;
  }
  return kOk; // the destructor of `ended` waits for the work of its streams
}

uint64_t Machine::device_references() {
  std::lock_guard lock(mutex_);
  uint64_t all = 0;
  for (const uint64_t count : references_) all += count;
  return all;
}

Error Machine::find_stream(void *handle, std::shared_ptr<Stream> *out) {
  Context *context = current();
  std::lock_guard lock(mutex_);
  if (!handle) return *out = context->default_stream, kOk;
  if (const auto found = context->streams.find(handle); found != context->streams.end())
    return *out = found->second, kOk;
  for (const auto &each : contexts_)
    if (each && each->streams.count(handle))
      return fail(kForeignContext, "EE1009: the stream is device %d's, and device %d is current", each->device,
                  context->device);
  return fail(kHandle, "EE1010: %p is no stream", handle);
}

Error Machine::create_stream(void **out) {
  Context *context = current();
  std::lock_guard lock(mutex_);
  if (context->streams.size() >= settings_.streams)
    return fail(kNoStreamLeft, "EE1011: device %d has %llu streams, no more", context->device,
                static_cast<unsigned long long>(settings_.streams));
  auto stream = std::make_shared<Stream>(context->device);
  *out = stream.get();
  context->streams.emplace(stream.get(), std::move(stream));
  return kOk;
}

Error Machine::destroy_stream(void *handle) {
  std::shared_ptr<Stream> stream;
  if (!handle) return fail(kParameter, "EE1012: the default stream cannot be destroyed");
  if (const Error error = find_stream(handle, &stream)) return error;
  stream->synchronize(); // the real library waits too
  Context *context = current();
  std::lock_guard lock(mutex_);
  context->streams.erase(handle);
  return kOk;
}

std::vector<std::shared_ptr<Stream>> Machine::streams_of_current() {
  Context *context = current();
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Stream>> all = {context->default_stream};
  for (const auto &[handle, stream] : context->streams) all.push_back(stream);
  return all;
}

uint64_t Machine::stream_count() {
  std::lock_guard lock(mutex_);
  uint64_t count = 0;
  for (const auto &context : contexts_) count += context ? context->streams.size() : 0;
  return count;
}

std::shared_ptr<Event> Machine::find_event(void *handle) {
  std::lock_guard lock(mutex_);
  const auto found = events_.find(handle);
  if (found != events_.end()) return found->second;
  fail(kHandle, "EE1013: %p is no event", handle);
  return nullptr;
}

Error Machine::create_event(uint32_t flags, bool renewable, void **out) {
  if (!out || flags & ~uint32_t(kEventFlags)) return fail(kParameter, "EE1014: unknown event flags %#x", flags);
  Context *context = current();
  std::lock_guard lock(mutex_);
  if (!renewable) {
    uint64_t old = 0;
    for (const auto &[handle, event] : events_) old += !event->renewable && event->device == context->device;
    if (old >= settings_.events) return fail(kNoEventLeft, "EE1015: device %d has no more events", context->device);
  }
  auto event = std::make_shared<Event>();
  event->device = context->device;
  event->flags = flags;
  event->renewable = renewable;
  *out = event.get();
  events_.emplace(event.get(), event);
  return kOk;
}

Error Machine::destroy_event(void *handle) {
  std::lock_guard lock(mutex_);
  return events_.erase(handle) ? kOk : fail(kHandle, "EE1013: %p is no event", handle);
}

uint64_t Machine::event_count() {
  std::lock_guard lock(mutex_);
  return events_.size();
}

} // namespace sim

uint64_t tb_simnpu_live(char *text, uint64_t size) {
  sim::Machine &machine = sim::Machine::get();
  const sim::Memory::Counts memory = machine.memory().counts();
  std::vector<std::pair<const char *, uint64_t>> kinds = {{"memory", memory.blocks},
                                                          {"pinned", memory.pinned},
                                                          {"registered", memory.registered},
                                                          {"streams", machine.stream_count()},
                                                          {"events", machine.event_count()},
                                                          {"physicals", memory.physicals},
                                                          {"addresses", memory.addresses},
                                                          {"device references", machine.device_references()},
                                                          {"initialised", machine.initialized()}};
  for (const sim::Live *each = sim::live_kinds(); each; each = each->next) kinds.emplace_back(each->kind, each->count);
  uint64_t all = 0, used = 0;
  if (size) text[0] = 0;
  for (const auto &[kind, count] : kinds) {
    all += count;
    if (count && used < size)
      used += static_cast<uint64_t>(std::snprintf(text + used, size - used, "%s%llu %s", used ? ", " : "",
                                                  static_cast<unsigned long long>(count), kind));
  }
  return all;
}
