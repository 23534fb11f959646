// Arguments of calls: handles, devices, flags; and the texts that refuse them.
#include "layers/validate/validate.h"

#include <algorithm>
#include <cinttypes>

namespace tb::layers {
namespace {

// All layers of this kind: a handle that one does not know may be another's.
struct Known {
  std::mutex mutex;
  std::vector<const Validate *> layers;
};
Known &known() {
  static auto *all = new Known; // drivers may be closed while the process ends
  return *all;
}

// The bits that the ABI knows; all others are reserved.
uint64_t known_flags(Slot slot) {
  return slot == Slot::event_create ? uint64_t{TB_EVENT_TIMING | TB_EVENT_BLOCKING | TB_EVENT_IPC} : 0;
}

} // namespace

Validate::Validate(const tb_host *host, OptionReader &) : LayerOf(name, host) {
  std::lock_guard lock(known().mutex);
  known().layers.push_back(this);
}

Validate::~Validate() {
  std::lock_guard lock(known().mutex);
  std::erase(known().layers, this);
}

void Validate::prepare(const tb_driver_api &api, tb_driver *self) {
  driver_ = api;
  driver_self_ = self;
  async_ = (api.groups & TB_GROUP_ASYNC) != 0;
  if (api.device_count(self, &device_count_) != TB_OK) device_count_ = INT32_MAX;
}

bool Validate::knows(Kind kind, const void *handle) const {
  const auto facts = handles(kind).find(handle);
  return facts && !facts->ended;
}

std::string Validate::belongs_elsewhere(Kind kind, const void *handle) const {
  std::lock_guard lock(known().mutex);
  for (const Validate *other : known().layers)
    if (other != this && other->knows(kind, handle)) return "it belongs to another open driver";
  for (int place = 1; place < static_cast<int>(Kind::count); ++place)
    if (const Kind actual = static_cast<Kind>(place); actual != kind && knows(actual, handle))
      return std::string("it is a ") + name_of(actual);
  return "this driver never gave it, or long ago";
}

tb_status Validate::refuse_handle(Call call, Kind kind, const void *handle) const {
  const char *what = name_of(kind);
  if (!handle)
    return fail(TB_INVALID_ARGUMENT, "%s got NULL for its %s. Pass one that the driver gave", name_of(call.slot), what);
  const auto facts = handles(kind).find(handle);
  if (facts && facts->ended)
    return fail(TB_INVALID_ARGUMENT,
                "%s got %s %p, which call %" PRIu64 " (%s) has ended already; call %" PRIu64
                " (%s) had made it. This is call %" PRIu64 ": drop the handle when it ends, and end it once",
                name_of(call.slot), what, handle, facts->ended, name_of(facts->ended_by), facts->made,
                name_of(facts->made_by), call.number);
  return fail(TB_INVALID_ARGUMENT,
              "%s got %p, which is no live %s of this driver: %s. Pass a handle as the driver gave it",
              name_of(call.slot), handle, what, belongs_elsewhere(kind, handle).c_str());
}

tb_status Validate::check_handle(Call call, Kind kind, const void *handle) const {
  const auto lives = handle && const_cast<Handles &>(handles(kind)).with(handle, [](const HandleFacts &) {});
  return lives ? TB_OK : refuse_handle(call, kind, handle);
}

tb_status Validate::check_stream(Call call, tb_stream *stream) const {
  if (async_) return check_handle(call, Kind::stream, stream);
  if (!stream) return TB_OK;
  return fail(TB_INVALID_ARGUMENT, "%s got stream %p, but this driver has no streams. Pass NULL", name_of(call.slot),
              static_cast<const void *>(stream));
}

tb_status Validate::check_function(Call call, tb_function *function) const {
  const auto facts = functions_.find(function);
  if (!facts)
    return fail(TB_INVALID_ARGUMENT, "%s got function %p, which module_function never gave", name_of(call.slot),
                static_cast<const void *>(function));
  const auto module = handles(Kind::module).find(facts->owner);
  if (module && !module->ended && module->made == facts->owner_made) return TB_OK;
  return fail(TB_INVALID_ARGUMENT,
              "%s got function %p, which call %" PRIu64
              " (module_function) gave and whose module was unloaded%s. Unload a "
              "module after the last use of its functions",
              name_of(call.slot), static_cast<const void *>(function), facts->made,
              module && module->ended ? (" by call " + std::to_string(module->ended)).c_str() : "");
}

tb_status Validate::check_device(Call call, std::string_view argument, int32_t device) const {
  if (device >= 0 && device < device_count_) return TB_OK;
  return fail(TB_OUT_OF_RANGE, "%s got %.*s %d, and there are %d devices, counted from 0", name_of(call.slot),
              static_cast<int>(argument.size()), argument.data(), device, device_count_);
}

tb_status Validate::check_flags(Call call, uint64_t flags) const {
  const uint64_t unknown = flags & ~known_flags(call.slot);
  if (!unknown) return TB_OK;
  return fail(TB_INVALID_ARGUMENT, "%s got unknown flags %#" PRIx64 "; it knows %#" PRIx64, name_of(call.slot), unknown,
              known_flags(call.slot));
}

tb_status Validate::check_given(Call call, std::string_view argument, const void *pointer) const {
  if (pointer) return TB_OK;
  return fail(TB_INVALID_ARGUMENT, "%s got NULL for '%.*s', which it needs", name_of(call.slot),
              static_cast<int>(argument.size()), argument.data());
}

tb_status Validate::check_kind(Call call, int32_t kind) const {
  if (kind >= TB_COPY_HOST_TO_DEVICE && kind <= TB_COPY_DEVICE_TO_DEVICE) return TB_OK;
  return fail(TB_INVALID_ARGUMENT,
              "%s got kind %d; the kinds are 1 (host to device), 2 (device to host) and 3 (device "
              "to device)",
              name_of(call.slot), kind);
}

tb_status Validate::check_stream_device(Call call, tb_stream *stream, int32_t device, int32_t other) const {
  if (!async_) return TB_OK;
  const int32_t actual = device_of(Kind::stream, stream);
  if (actual == device || (other >= 0 && actual == other)) return TB_OK;
  return fail(TB_INVALID_ARGUMENT, "%s for device %d got stream %p of device %d. Use a stream of the device",
              name_of(call.slot), device, static_cast<const void *>(stream), actual);
}

int32_t Validate::device_of(Kind kind, const void *handle) const {
  int32_t device = -1;
  const_cast<Handles &>(handles(kind)).with(handle, [&](const HandleFacts &facts) { device = facts.device; });
  return device;
}

void Validate::made_handle(Call call, Kind kind, const void *handle, int32_t device, uint64_t size, bool borrowed) {
  HandleFacts facts;
  facts.device = device;
  facts.made_by = call.slot;
  facts.made = call.number;
  facts.borrowed = borrowed;
  facts.size = size;
  if (kind == Kind::stream) facts.progress = streams_.add(static_cast<tb_stream *>(const_cast<void *>(handle)), device);
  handles(kind).made(handle, std::move(facts));
}

tb_status Validate::take_handle(Call call, Next next, Kind kind, const void *handle) {
  if (!handles(kind).end(handle, call.number, call.slot)) return refuse_handle(call, kind, handle);
  const tb_status status = next();
  if (tb_is_refusal(status)) handles(kind).revive(handle);
  return status;
}

tb_status Validate::around(On<Slot::close>, Next next) {
  handles(Kind::closure_storage).each([&](const void *storage, const HandleFacts &facts) {
    log(2, "at close: closure storage %p, reserved by call %" PRIu64 ", was neither committed nor cancelled", storage,
        facts.made);
  });
  return next();
}

tb_status Validate::around(On<Slot::device_reset> on, Next next, int32_t device) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::vector<const void *> gone;
  ranges_.each([&](uintptr_t base, const Range &range) {
    if (range.device == device && !range.on_host()) gone.push_back(reinterpret_cast<const void *>(base));
  });
  for (const void *base : gone) {
    lost_.put(base, true);
    (void)ranges_.end(base, call.number, call.slot);
  }
  return status;
}

} // namespace tb::layers
