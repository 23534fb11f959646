// What is found, and the extension through which components tell what they use.
#include "layers/races/races.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "layers/races/tell.h"

namespace tb::layers {
namespace {

constexpr size_t most_races = 1000;
constexpr uint64_t in_capture = UINT64_MAX; // the number of captured work

Races &layer_of(void *layer) { return *static_cast<Races *>(layer); }

// Runs a function that needs memory for its records; without memory the layer knows less.
template <class Body> void attempt(const Body &body) noexcept {
  try {
    body();
  } catch (const std::exception &) {
  }
}

std::string describe(const RaceSide &side, const char *was) {
  char text[200];
  std::snprintf(text, sizeof text, "%s %s '%s'", side.use.work, was, side.use.name);
  std::string out = text;
  if (side.on_host) return out + " on the host";
  if (side.standard) {
    std::snprintf(text, sizeof text, " on the default stream of device %d", side.device);
  } else {
    std::snprintf(text, sizeof text, " on stream %p of device %d", side.stream, side.device);
  }
  return out + text;
}

} // namespace

std::string Race::text() const {
  char text[400];
  std::snprintf(text, sizeof text, "%" PRIu64 " bytes at %#" PRIxPTR " are used by two streams at once: ", bytes,
                address);
  return text + describe(second, second.use.writes ? "writes" : "reads") + ", and no event or wait puts it after " +
         describe(first, first.use.writes ? "which writes" : "which reads") + ". " +
         (reused ? "Between the two the memory was freed and given out again: record the first stream on it"
                 : "Record an event on the first stream and let the second wait for it");
}

std::vector<Race> Races::races() const {
  std::lock_guard lock(mutex_);
  return races_;
}

void Races::clear() {
  std::lock_guard lock(mutex_);
  races_.clear();
  reported_.clear();
}

Place Races::place(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return number && number <= place_of_number_.size() ? *place_of_number_[number - 1] : Place();
}

Place Races::place_here() const {
  constexpr uint32_t deepest = 12;
  const auto find = place_.load(std::memory_order_relaxed);
  if (!find) return {};
  Place frames(2 * deepest);
  frames.resize(2 * find(frames.data(), deepest));
  return frames;
}

uint32_t Races::number_of(const Place &place) {
  if (place.empty()) return 0;
  const auto [found, fresh] = places_.try_emplace(place, static_cast<uint32_t>(places_.size() + 1));
  if (fresh) place_of_number_.push_back(&found->first);
  return found->second;
}

RaceSide Races::side_of(const Use &use, const OrderedStream *stream) const {
  if (!stream) return {use, true, nullptr, false, -1};
  return {use, false, stream->handle, stream->standard, stream->device};
}

void Races::report(const StreamUse &earlier, const Use &use, const OrderedStream *later, const Extent &extent) {
  const auto key = std::tuple(earlier.use.work, earlier.use.place, use.work, use.place, earlier.use.writes, use.writes);
  if (races_.size() >= most_races || !reported_.insert(key).second) return;
  Race race;
  race.first = side_of(earlier.use, &order_.at(earlier.stream));
  race.second = side_of(use, later);
  race.address = extent.begin;
  race.bytes = extent.end - extent.begin;
  race.reused = earlier.life != shadow_.life_of(extent.begin);
  races_.push_back(race);
  found_.fetch_add(1, std::memory_order_relaxed);
  if (!place_.load(std::memory_order_relaxed)) log(2, "%s", race.text().c_str());
}

bool Races::is_pinned(const Extent &extent) const {
  auto at = pinned_.upper_bound(extent.begin);
  return at != pinned_.begin() && extent.begin < std::prev(at)->second;
}

void Races::note(OrderedStream *stream, uint64_t number, const Extent &extent, const Use &use) {
  if (extent.empty()) return;
  if (stream && stream->capture) return stream->capture->add(extent, use);
  shadow_.use(order_, extent, use, stream, number,
              [&](const StreamUse &earlier) { report(earlier, use, stream, extent); });
}

uint64_t Races::work(tb_stream *stream) {
  if (inside_work) return 0;
  std::lock_guard lock(mutex_);
  OrderedStream &found = order_.stream(stream);
  return found.capture ? in_capture : order_.next(found);
}

void Races::use(tb_stream *stream, uint64_t number, const char *work, const tb_races_memory *memory, uint32_t count) {
  if (inside_work) return;
  const Place here = place_here();
  std::lock_guard lock(mutex_);
  OrderedStream *queue = stream ? &order_.stream(stream) : nullptr;
  if (queue && !queue->capture && number == in_capture) number = order_.next(*queue); // the capture ended meanwhile
  const uint32_t place = number_of(here);
  for (const bool writes : {false, true}) // what work reads, it reads before it writes
    for (uint32_t at = 0; at < count; ++at) {
      if (((memory[at].flags & TB_RACES_WRITES) != 0) != writes) continue;
      const Extent extent = Extent::of(memory[at]);
      if ((memory[at].flags & TB_RACES_ON_HOST) && !is_pinned(extent)) continue;
      note(queue, number, extent, {work, memory[at].name, writes, place, 0});
    }
}

void Races::allocated(const void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  const Extent extent = Extent::range(address, size);
  if (extent.empty()) return;
  // Allocators of pinned memory give none out that queued work still uses.
  if (is_pinned(extent)) shadow_.forget(extent.begin, extent.end);
  shadow_.allocated(extent.begin, extent.end);
}

void Races::mark(const void *mark, const void *stream) {
  std::lock_guard lock(mutex_);
  OrderedStream &from = order_.stream(stream);
  (void)order_.next(from); // so that the host's part is in it
  points_[mark] = {from.done, {}, false};
}

void Races::follow(const void *stream, const void *mark) {
  std::lock_guard lock(mutex_);
  const auto found = points_.find(mark);
  if (found == points_.end()) return;
  if (stream)
    order_.stream(stream).done.join(found->second.clock);
  else
    order_.host_joins(found->second.clock);
}

void Races::forget_mark(const void *mark) {
  std::lock_guard lock(mutex_);
  points_.erase(mark);
}

tb_status Races::around(On<Slot::get_extension>, Next next, const char *name, uint32_t version, void *table,
                        uint32_t size) {
  return name && std::strcmp(name, TB_RACES_EXTENSION) == 0 ? offer(version, table, size) : next();
}

void Races::wrap(tb_driver_api *api, tb_driver **self) {
  LayerOf::wrap(api, self);
  if (api->get_extension) return;
  api->get_extension = [](tb_driver *own, const char *name, uint32_t version, void *table, uint32_t size) -> tb_status {
    Races &layer = static_cast<Races &>(*reinterpret_cast<Layer *>(own));
    if (name && std::strcmp(name, TB_RACES_EXTENSION) == 0) return layer.offer(version, table, size);
    return layer.fail(TB_NOT_FOUND, "the driver has no extensions, so not '%s' either", name ? name : "NULL");
  };
}

tb_status Races::offer(uint32_t version, void *table, uint32_t size) {
  if (version != TB_RACES_VERSION || !(inner.groups & TB_GROUP_ASYNC))
    return fail(TB_NOT_FOUND, "the layer races offers version %d of tb.races, around drivers with streams",
                TB_RACES_VERSION);
  if (!table || size < sizeof(tb_races_api))
    return fail(TB_INVALID_ARGUMENT, "get_extension('%s') needs room for %zu bytes; it got %u", TB_RACES_EXTENSION,
                sizeof(tb_races_api), table ? size : 0);
  const tb_races_api api{
      sizeof(tb_races_api),
      0,
      this,
      [](void *layer, uint32_t (*place)(uintptr_t *, uint32_t)) { layer_of(layer).set_place(place); },
      [](void *, tb_stream *stream, int32_t promises_wait) {
        return std::exchange(race_scope, tb_races_scope{stream, promises_wait, 1});
      },
      [](void *, tb_races_scope around) { race_scope = around; },
      [](void *layer, tb_stream *stream) {
        uint64_t number = 0;
        attempt([&] { number = layer_of(layer).work(stream); });
        return number;
      },
      [](void *layer, tb_stream *stream, uint64_t number, const char *work, const tb_races_memory *memory,
         uint32_t count) { attempt([&] { layer_of(layer).use(stream, number, work, memory, count); }); },
      [](void *layer, const void *address, uint64_t bytes) {
        attempt([&] { layer_of(layer).allocated(address, bytes); });
      },
      [](void *layer, const void *mark, const void *stream) { attempt([&] { layer_of(layer).mark(mark, stream); }); },
      [](void *layer, const void *stream, const void *mark) { attempt([&] { layer_of(layer).follow(stream, mark); }); },
      [](void *layer, const void *mark) { attempt([&] { layer_of(layer).forget_mark(mark); }); },
      [](void *layer) { return layer_of(layer).found(); },
  };
  std::memcpy(table, &api, sizeof api);
  return TB_OK;
}

} // namespace tb::layers
