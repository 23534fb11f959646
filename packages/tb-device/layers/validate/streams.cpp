// Checks streams, events, closures, modules and captures, and records the progress that the program knows of.
#include <cinttypes>

#include "layers/validate/validate.h"

namespace tb::layers {

std::shared_ptr<StreamProgress> Validate::progress_of(tb_stream *stream) const {
  std::shared_ptr<StreamProgress> out;
  const_cast<Handles &>(handles(Kind::stream)).with(stream, [&](const HandleFacts &facts) { out = facts.progress; });
  return out;
}

std::shared_ptr<const EventPoint> Validate::point_in(tb_event *event) const {
  std::shared_ptr<const EventPoint> out;
  const_cast<Handles &>(handles(Kind::event)).with(event, [&](const HandleFacts &facts) { out = facts.point; });
  return out;
}

// Passes on a failure that only this layer's own query received.
tb_status Validate::report_kept(StreamProgress &stream, tb_status status) const {
  if (status != TB_OK || stream.unreported.load(std::memory_order_relaxed) == TB_OK) return status;
  const tb_status kept = stream.unreported.exchange(TB_OK);
  if (kept == TB_OK) return status;
  return fail(
      kept,
      "work queued on stream %p failed; the layer validate received the failure when memory was freed, and its text "
      "was lost",
      static_cast<const void *>(stream.stream));
}

tb_status Validate::around(On<Slot::device_synchronize> on, Next next, int32_t device) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  const std::vector<EventPoint> points = streams_.points(device);
  tb_status status = next();
  if (status == TB_OK)
    for (const EventPoint &point : points) {
      mark(point);
      status = report_kept(*point.stream, status);
    }
  return status;
}

tb_status Validate::around(On<Slot::stream_default> on, Next next, int32_t device, tb_stream **out) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  if (const tb_status status = check_given(call, "out", out)) return status;
  const tb_status status = next();
  if (status == TB_OK && !knows(Kind::stream, *out)) {
    static std::mutex first; // two threads may ask at once; each stream has one progress
    std::lock_guard lock(first);
    if (!knows(Kind::stream, *out)) made_handle(call, Kind::stream, *out, device, 0, true);
  }
  return status;
}

tb_status Validate::around(On<Slot::stream_destroy> on, Next next, tb_stream *stream) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_handle(call, Kind::stream, stream)) return status;
  const auto facts = handles(Kind::stream).find(stream);
  if (facts && facts->borrowed)
    return fail(TB_INVALID_ARGUMENT, "stream_destroy got %p, the default stream of device %d, which the driver keeps",
                static_cast<const void *>(stream), facts->device);
  if (facts && facts->progress->storages.load() > 0) {
    uint64_t reserved = 0;
    handles(Kind::closure_storage).each([&](const void *, const HandleFacts &storage) {
      if (storage.owner == stream) reserved = storage.made;
    });
    return fail(TB_FAILED_PRECONDITION,
                "stream_destroy got %p while the closure storage that call %" PRIu64
                " (closure_reserve) gave is neither "
                "committed nor cancelled. End every reserve before the stream",
                static_cast<const void *>(stream), reserved);
  }
  const tb_status status = take_handle(call, next, Kind::stream, stream);
  if (!tb_is_refusal(status) && facts) streams_.remove(facts->progress->serial);
  return status;
}

tb_status Validate::around(On<Slot::stream_query> on, Next next, tb_stream *stream) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  const auto progress = progress_of(stream);
  if (!progress) return next();
  const EventPoint point = point_of(progress);
  const tb_status status = next();
  if (status == TB_OK) mark(point);
  return report_kept(*progress, status);
}

tb_status Validate::around(On<Slot::stream_synchronize> on, Next next, tb_stream *stream) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  const auto progress = progress_of(stream);
  if (!progress) return next();
  const EventPoint point = point_of(progress);
  const tb_status status = next();
  if (status == TB_OK) mark(point);
  return report_kept(*progress, status);
}

tb_status Validate::around(On<Slot::stream_wait_event> on, Next next, tb_stream *stream, tb_event *event) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_handle(call, Kind::event, event)) return status;
  const auto point = point_in(event);
  const tb_status status = next();
  if (status == TB_OK && point)
    if (const auto progress = progress_of(stream)) join(*progress, *point);
  return status;
}

tb_status Validate::around(On<Slot::event_record> on, Next next, tb_event *event, tb_stream *stream) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_handle(call, Kind::event, event)) return status;
  if (const tb_status status = check_stream(call, stream)) return status;
  const auto progress = progress_of(stream);
  auto point = progress ? std::make_shared<const EventPoint>(point_of(progress)) : nullptr;
  const tb_status status = next();
  if (status == TB_OK) handles(Kind::event).with(event, [&](HandleFacts &facts) { facts.point.swap(point); });
  return status;
}

tb_status Validate::around(On<Slot::event_query> on, Next next, tb_event *event) {
  return passing(on.slot, next, event);
}

tb_status Validate::around(On<Slot::event_synchronize> on, Next next, tb_event *event) {
  return passing(on.slot, next, event);
}

tb_status Validate::passing(Slot slot, Next next, tb_event *event) {
  const Call call = begin(slot);
  if (const tb_status status = check_handle(call, Kind::event, event)) return status;
  const auto point = point_in(event);
  const tb_status status = next();
  if (status == TB_OK && point) mark(*point);
  return status;
}

tb_status Validate::around(On<Slot::closure_reserve> on, Next next, tb_stream *stream, uint64_t, void **out) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_given(call, "out", out)) return status;
  const tb_status status = next();
  if (status != TB_OK) return status;
  HandleFacts facts;
  facts.made_by = call.slot;
  facts.made = call.number;
  facts.owner = stream;
  handles(Kind::closure_storage).made(*out, std::move(facts));
  if (const auto progress = progress_of(stream)) progress->storages.fetch_add(1);
  return status;
}

// Forgotten before the call: the queue may give the same storage again at once.
tb_status Validate::take_storage(Call call, Next next, tb_stream *stream, void *storage) {
  Handles &storages = handles(Kind::closure_storage);
  const auto facts = storages.find(storage);
  if (!facts)
    return fail(TB_INVALID_ARGUMENT,
                "%s got %p, which is no storage between closure_reserve and its end: it was committed or cancelled "
                "already, or never reserved. End each reserve once",
                name_of(call.slot), storage);
  if (facts->owner != stream)
    return fail(TB_INVALID_ARGUMENT,
                "%s got storage %p with stream %p, but call %" PRIu64 " (closure_reserve) reserved it on stream %p",
                name_of(call.slot), storage, static_cast<const void *>(stream), facts->made, facts->owner);
  storages.forget(storage);
  const auto progress = progress_of(stream);
  if (progress) progress->storages.fetch_sub(1);
  const tb_status status = next();
  if (status != TB_OK) {
    storages.made(storage, *facts);
    if (progress) progress->storages.fetch_add(1);
  }
  return status;
}

tb_status Validate::around(On<Slot::closure_commit> on, Next next, tb_stream *stream, void *storage,
                           const tb_closure *closure) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_given(call, "closure", closure)) return status;
  if (!closure->run || !closure->destroy)
    return fail(TB_INVALID_ARGUMENT, "closure_commit got a closure '%s' without a function %s",
                closure->name ? closure->name : "", closure->run ? "destroy" : "run");
  return take_storage(call, next, stream, storage);
}

tb_status Validate::around(On<Slot::closure_cancel> on, Next next, tb_stream *stream, void *storage) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_stream(call, stream)) return status;
  return take_storage(call, next, stream, storage);
}

tb_status Validate::around(On<Slot::module_function> on, Next next, tb_module *module, const char *function,
                           tb_function **out) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_all<Slot::module_function>(call, module, function, out)) return status;
  const auto owner = handles(Kind::module).find(module);
  const tb_status status = next();
  if (status != TB_OK || !owner) return status;
  HandleFacts facts;
  facts.device = owner->device;
  facts.made_by = call.slot;
  facts.made = call.number;
  facts.owner = module;
  facts.owner_made = owner->made;
  functions_.made(*out, std::move(facts));
  return status;
}

// A variable of a module is memory that copies may name.
tb_status Validate::around(On<Slot::module_global> on, Next next, tb_module *module, const char *global, void **out,
                           uint64_t *out_size) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_all<Slot::module_global>(call, module, global, out, out_size)) return status;
  const tb_status status = next();
  if (status == TB_OK) made_range(call, Kind::none, *out, *out_size, true, device_of(Kind::module, module), module);
  return status;
}

// Its variables end with it: other memory may get their addresses.
tb_status Validate::around(On<Slot::module_unload> on, Next next, tb_module *module) {
  const Call call = begin(on.slot);
  std::vector<const void *> variables;
  ranges_.each([&](uintptr_t base, const Range &range) {
    if (range.owner == module) variables.push_back(reinterpret_cast<const void *>(base));
  });
  for (const void *base : variables) (void)ranges_.end(base, call.number, call.slot);
  const tb_status status = take_handle(call, next, Kind::module, module);
  if (tb_is_refusal(status))
    for (const void *base : variables) ranges_.revive(base, call.number);
  return status;
}

// Every pointer that a tb_launch_arguments names is inside its argument.
tb_status Validate::check_launch_arguments(const tb_launch &config) {
  const auto *said =
      static_cast<const tb_launch_arguments *>(tb_find_extension(config.next, TB_EXTENSION_LAUNCH_ARGUMENTS));
  if (!said) return TB_OK;
  if (said->struct_size < sizeof *said || (config.arg_count && !said->arguments))
    return fail(TB_INVALID_ARGUMENT, "launch got a tb_launch_arguments of %u bytes %s", said->struct_size,
                said->arguments ? "instead of its whole size" : "without its arguments");
  for (uint32_t number = 0; number < config.arg_count; ++number) {
    const tb_launch_argument &argument = said->arguments[number];
    const uint64_t size = config.arg_sizes[number];
    if (argument.kind > TB_LAUNCH_ARGUMENT_STRUCT)
      return fail(TB_INVALID_ARGUMENT, "launch got argument %u of kind %u, which is none of TB_ARGUMENT_*", number,
                  argument.kind);
    if (argument.kind == TB_LAUNCH_ARGUMENT_POINTER && size != sizeof(void *))
      return fail(TB_INVALID_ARGUMENT, "launch got argument %u of %llu bytes as a pointer, which has %zu", number,
                  static_cast<unsigned long long>(size), sizeof(void *));
    if (argument.pointer_count && (argument.kind != TB_LAUNCH_ARGUMENT_STRUCT || !argument.pointer_offsets))
      return fail(TB_INVALID_ARGUMENT,
                  "launch got argument %u of kind %u with %u pointers: only a struct has pointer_count, and "
                  "pointer_offsets then",
                  number, argument.kind, argument.pointer_count);
    for (uint32_t i = 0; i < argument.pointer_count; ++i) {
      const uint64_t offset = argument.pointer_offsets[i];
      if (offset + sizeof(void *) > size || (i && offset <= argument.pointer_offsets[i - 1]))
        return fail(TB_INVALID_ARGUMENT,
                    "launch got argument %u of %llu bytes with a pointer at byte %llu: offsets ascend and are inside "
                    "the argument",
                    number, static_cast<unsigned long long>(size), static_cast<unsigned long long>(offset));
    }
  }
  return TB_OK;
}

tb_status Validate::around(On<Slot::launch> on, Next next, tb_stream *stream, tb_function *function,
                           const tb_launch *config) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_all<Slot::launch>(call, stream, function, config)) return status;
  if (const auto facts = functions_.find(function))
    if (const tb_status status = check_stream_device(call, stream, facts->device)) return status;
  if (config->arg_count && (!config->args || !config->arg_sizes))
    return fail(TB_INVALID_ARGUMENT, "launch got %u arguments but no %s", config->arg_count,
                config->args ? "arg_sizes" : "args");
  if (const tb_status status = check_launch_arguments(*config)) return status;
  return next();
}

tb_status Validate::around(On<Slot::capture_begin> on, Next next, tb_stream *stream, uint64_t flags) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_all<Slot::capture_begin>(call, stream, flags)) return status;
  const tb_status status = next();
  if (status == TB_OK) captures_.fetch_add(1);
  return status;
}

tb_status Validate::around(On<Slot::capture_end> on, Next next, tb_stream *stream, tb_graph **out) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_all<Slot::capture_end>(call, stream, out)) return status;
  int32_t active_before = 1, active_after = 0;
  (void)(inner_graph.capture_is_active && inner_graph.capture_is_active(inner_self, stream, &active_before));
  const tb_status status = next();
  if (status == TB_OK) {
    made_handle(call, Kind::graph, *out, device_of(Kind::stream, stream), 0, false);
  } else {
    (void)(inner_graph.capture_is_active && inner_graph.capture_is_active(inner_self, stream, &active_after));
  }
  if (active_before && !active_after) captures_.fetch_sub(1); // ended or dropped
  return status;
}

} // namespace tb::layers
