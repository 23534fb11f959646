// What the functions of the table order and use.
#include "layers/framework/sharded_map.h"
#include "layers/races/races.h"
#include "layers/races/tell.h"

namespace tb::layers {

// ---- order ----------------------------------------------------------------------------------------------------------

void Races::made_stream(tb_stream *stream, int32_t device, bool standard) {
  std::lock_guard lock(mutex_);
  OrderedStream &made = order_.stream(stream);
  made.device = device;
  made.standard = standard;
}

tb_status Races::around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out) {
  const tb_status status = next();
  if (status == TB_OK) made_stream(*out, device, true);
  return status;
}

tb_status Races::around(On<Slot::stream_create>, Next next, int32_t device, int32_t, uint64_t, tb_stream **out) {
  const tb_status status = next();
  if (status == TB_OK) made_stream(*out, device, false);
  return status;
}

tb_status Races::around(On<Slot::stream_wrap>, Next next, int32_t device, uint64_t, tb_stream **out) {
  const tb_status status = next();
  if (status == TB_OK) made_stream(*out, device, false);
  return status;
}

// What was given to the stream before the call is done after it. During the call another thread may give it more.
tb_status Races::seeing(Next next, tb_stream *stream) {
  const InsideWork inside; // a waiting thread may run kernels
  if (race_scope.active && race_scope.stream == stream && !race_scope.promises_wait) return next();
  Clock before;
  {
    std::lock_guard lock(mutex_);
    before = order_.stream(stream).done;
  }
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  order_.host_joins(before);
  return status;
}

tb_status Races::around(On<Slot::device_synchronize>, Next next, int32_t device) {
  const InsideWork inside;
  Clock before;
  {
    std::lock_guard lock(mutex_);
    before = order_.all(device);
  }
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  order_.host_joins(before);
  return status;
}

tb_status Races::around(On<Slot::device_reset>, Next next, int32_t) {
  const tb_status status = next();
  std::lock_guard lock(mutex_);
  order_.host_joins(order_.all(-1));
  shadow_.clear();
  return status;
}

tb_status Races::around(On<Slot::event_record>, Next next, tb_event *event, tb_stream *stream) {
  EventPoint point;
  {
    std::lock_guard lock(mutex_);
    OrderedStream &from = order_.stream(stream);
    if (!from.capture) (void)order_.next(from); // so that the host's part is in it
    point = {from.done, from.capture, from.capture != nullptr};
  }
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  points_[event] = std::move(point);
  return status;
}

tb_status Races::around(On<Slot::stream_wait_event>, Next next, tb_stream *stream, tb_event *event) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  const auto found = points_.find(event);
  if (found == points_.end()) return status; // never recorded
  OrderedStream &waiting = order_.stream(stream);
  const auto capture = found->second.capture.lock();
  if (capture && capture->active)
    waiting.capture = capture;
  else
    waiting.done.join(found->second.everything ? order_.all(-1) : found->second.clock);
  return status;
}

tb_status Races::passing(Next next, tb_event *event) {
  const InsideWork inside;
  Clock before;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = points_.find(event); found != points_.end())
      before = found->second.everything ? order_.all(-1) : found->second.clock;
  }
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  order_.host_joins(before);
  return status;
}

tb_status Races::around(On<Slot::event_destroy>, Next next, tb_event *event) {
  {
    std::lock_guard lock(mutex_);
    points_.erase(event);
  }
  return next();
}

tb_status Races::around(On<Slot::ipc_import_event>, Next next, int32_t, const tb_ipc_handle *, tb_event **out) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  std::lock_guard lock(mutex_);
  points_[*out] = {{}, {}, true};
  return status;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

void Races::copies(tb_stream *stream, const char *work, const Extent &dst, const Extent &src) {
  if (!stream || race_scope.active || inside_work) return;
  const Place here = place_here();
  std::lock_guard lock(mutex_);
  OrderedStream &queue = order_.stream(stream);
  const uint64_t number = queue.capture ? 0 : order_.next(queue);
  const uint32_t place = number_of(here);
  note(&queue, number, src, {work, "src", false, place, 0});
  note(&queue, number, dst, {work, "dst", true, place, 0});
}

tb_status Races::around(On<Slot::mem_copy>, Next next, int32_t, tb_stream *stream, void *dst, const void *src,
                        uint64_t size, int32_t kind) {
  Extent to = Extent::range(dst, size), from = Extent::range(src, size);
  {
    std::lock_guard lock(mutex_);
    if (kind == TB_COPY_DEVICE_TO_HOST && !is_pinned(to)) to = {};
    if (kind == TB_COPY_HOST_TO_DEVICE && !is_pinned(from)) from = {};
  }
  copies(stream, "mem_copy", to, from);
  return next();
}

tb_status Races::around(On<Slot::mem_copy_2d>, Next next, int32_t, tb_stream *stream, const tb_copy_2d *copy) {
  if (!copy) return next();
  Extent to = Extent::of_pitched(copy->dst, copy->width, copy->height, copy->dst_pitch);
  Extent from = Extent::of_pitched(copy->src, copy->width, copy->height, copy->src_pitch);
  {
    std::lock_guard lock(mutex_);
    if (copy->kind == TB_COPY_DEVICE_TO_HOST && !is_pinned(to)) to = {};
    if (copy->kind == TB_COPY_HOST_TO_DEVICE && !is_pinned(from)) from = {};
  }
  copies(stream, "mem_copy_2d", to, from);
  return next();
}

tb_status Races::around(On<Slot::peer_copy>, Next next, tb_stream *stream, void *dst, int32_t, const void *src, int32_t,
                        uint64_t size) {
  copies(stream, "peer_copy", Extent::range(dst, size), Extent::range(src, size));
  return next();
}

tb_status Races::around(On<Slot::mem_set>, Next next, int32_t, tb_stream *stream, void *dst, uint32_t,
                        uint32_t pattern_size, uint64_t count) {
  copies(stream, "mem_set", Extent::range(dst, pattern_size * count), {});
  return next();
}

tb_status Races::around(On<Slot::mem_alloc>, Next next, int32_t, uint64_t size, uint64_t, void **out) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  const Extent made = Extent::range(*out, size);
  std::lock_guard lock(mutex_);
  shadow_.forget(made.begin, made.end);
  return status;
}

tb_status Races::around(On<Slot::mem_alloc_async>, Next next, tb_stream *, uint64_t size, uint64_t, void **out) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  const Extent made = Extent::range(*out, size); // which the driver may have taken from another stream, in an own order
  std::lock_guard lock(mutex_);
  shadow_.forget(made.begin, made.end);
  return status;
}

tb_status Races::around(On<Slot::vmm_unmap>, Next next, void *address, uint64_t size) {
  const tb_status status = next();
  if (tb_is_refusal(status)) return status;
  const Extent gone = Extent::range(address, size);
  std::lock_guard lock(mutex_);
  shadow_.forget(gone.begin, gone.end);
  return status;
}

tb_status Races::around(On<Slot::mem_alloc_host>, Next next, int32_t, uint64_t size, uint64_t, void **out) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  const Extent made = Extent::range(*out, size);
  std::lock_guard lock(mutex_);
  pinned_[made.begin] = made.end;
  shadow_.forget(made.begin, made.end);
  return status;
}

tb_status Races::around(On<Slot::mem_register_host>, Next next, int32_t, void *ptr, uint64_t size, uint64_t) {
  const tb_status status = next();
  if (status != TB_OK) return status;
  const Extent made = Extent::range(ptr, size);
  std::lock_guard lock(mutex_);
  pinned_[made.begin] = made.end;
  shadow_.forget(made.begin, made.end);
  return status;
}

// Before the call: afterwards another thread may get the address.
tb_status Races::ending_host(Next next, void *ptr) {
  {
    std::lock_guard lock(mutex_);
    const auto found = pinned_.find(reinterpret_cast<uintptr_t>(ptr));
    if (found != pinned_.end()) {
      shadow_.forget(found->first, found->second);
      pinned_.erase(found);
    }
  }
  return next();
}

// ---- work of the host in stream order --------------------------------------------------------------------------------

// The host may wait for such work in any way, so it has seen done what came before.
void Races::before_host_work(const Clock &before) {
  std::lock_guard lock(mutex_);
  order_.host_joins(before);
}

struct Races::HostCall {
  Races *layer;
  void (*function)(void *, tb_status);
  void *user;
  Clock before;
  bool repeats; // in a capture, which owns it until the end
};

Races::Races(const tb_host *host, OptionReader &) : LayerOf(name, host) {}
Races::~Races() = default;

tb_status Races::around(On<Slot::stream_host_call>, Next next, tb_stream *stream, void (*function)(void *, tb_status),
                        void *user) {
  if (!function) return next();
  auto call = std::make_unique<HostCall>(HostCall{this, function, user, {}, false});
  {
    std::lock_guard lock(mutex_);
    const OrderedStream &queue = order_.stream(stream);
    call->before = queue.done;
    call->repeats = queue.capture != nullptr;
  }
  const bool repeats = call->repeats;
  const auto run = [](void *given, tb_status status) {
    auto *own = static_cast<HostCall *>(given);
    const std::unique_ptr<HostCall> once(own->repeats ? nullptr : own);
    if (!own->repeats) own->layer->before_host_work(own->before);
    const InsideWork inside;
    own->function(own->user, status);
  };
  const tb_status status = inner.stream_host_call(inner_self, stream, run, call.get());
  if (status != TB_OK) return status;
  HostCall *queued = call.release(); // it may be gone by now, unless it repeats
  if (!repeats) return status;
  std::lock_guard lock(mutex_);
  captured_calls_.emplace_back(queued);
  return status;
}

namespace {

// A closure that may run code of the program, of the kind `inner`. By its storage, from commit to destroy.
struct HostClosureFacts {
  const tb_closure *inner;
  Races *layer; // NULL in a capture, whose order is its own
  Clock before;
};
ShardedMap<HostClosureFacts> &host_closures() {
  static auto *all = new ShardedMap<HostClosureFacts>; // never destroyed: closures may be, while the process ends
  return *all;
}

} // namespace

// Kernels may run on waiting threads; what may not is code of the host, which must not count as a use by the host.
void Races::wraps_closure(const tb_closure *closure, const tb_closure **out) {
  std::unique_ptr<tb_closure> &kind = kinds_[closure];
  if (!kind) {
    kind = std::make_unique<tb_closure>(*closure);
    kind->run = [](void *storage, const tb_closure_context *context) -> tb_status {
      const auto facts = host_closures().find(storage);
      if (facts->layer) facts->layer->before_host_work(facts->before);
      const InsideWork inside;
      return facts->inner->run(storage, context);
    };
    kind->destroy = [](void *storage) {
      const auto facts = host_closures().take(storage);
      facts->inner->destroy(storage);
    };
  }
  *out = kind.get();
}

tb_status Races::around(On<Slot::closure_commit>, Next next, tb_stream *stream, void *storage,
                        const tb_closure *closure) {
  if (!closure || !closure->run || !closure->destroy || (closure->flags & TB_CLOSURE_ON_WAITER)) return next();
  const tb_closure *wrapped = nullptr;
  HostClosureFacts facts{closure, nullptr, {}};
  {
    std::lock_guard lock(mutex_);
    wraps_closure(closure, &wrapped);
    const OrderedStream &queue = order_.stream(stream);
    facts.before = queue.done;
    if (!queue.capture) facts.layer = this;
  }
  host_closures().put(storage, facts);
  const tb_status status = inner.closure_commit(inner_self, stream, storage, wrapped);
  if (status != TB_OK) (void)host_closures().take(storage);
  return status;
}

} // namespace tb::layers
