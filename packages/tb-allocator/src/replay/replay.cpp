// replay.cpp -- the replay loop.
#include "replay/replay.h"

#include <algorithm>
#include <chrono>

#include "plan/planner.h"

namespace tb::allocator {
namespace {

struct Player {
  const Trace &trace;
  tb_driver driver;
  std::vector<tb_stream> streams;
  std::unique_ptr<Heap> heap;
  std::vector<tb_block *> blocks;
  bool pinned;

  Player(const Trace &which, const ReplaySettings &settings)
      : trace(which), driver(settings.capacity, settings.lag), streams(which.streams, tb_stream{&driver}),
        blocks(which.slots), pinned(settings.pinned) {
    Driver mine{&emulated_api(), &driver};
    if (pinned) {
      heap = std::make_unique<Heap>(mine, std::make_unique<HostSource>(mine), pinned_policy(settings.configuration));
      return;
    }
    tb_device_info info{};
    info.total_memory = settings.capacity;
    HeapPolicy policy = device_policy(settings.configuration, info, true);
    heap = std::make_unique<Heap>(mine, std::make_unique<DeviceSource>(mine, 0), policy);
  }

  // Plays events [from, to); returns the first that failed, or `to`. Not inlined, because tools count its instructions.
  [[gnu::noinline]] size_t play(size_t from, size_t to);

  void free_all() {
    for (tb_block *&block : blocks) {
      if (block) heap->deallocate(block);
      block = nullptr;
    }
  }
};

size_t Player::play(size_t from, size_t to) {
  void *pointer;
  for (size_t at = from; at < to; ++at) {
    const TraceEvent &event = trace.events[at];
    ++driver.now;
    if (event.kind == TraceEvent::free) {
      heap->deallocate(blocks[event.slot]);
      blocks[event.slot] = nullptr;
    } else if (event.kind == TraceEvent::allocate) {
      tb_stream *stream = pinned ? nullptr : &streams[event.stream];
      if (heap->allocate(event.bytes, stream, &pointer, &blocks[event.slot]) != TB_OK) return at;
    } else if (heap->record_stream(blocks[event.slot], &streams[event.stream]) != TB_OK) {
      return at;
    }
  }
  return to;
}

} // namespace

ReplayResult replay(const Trace &trace, const ReplaySettings &settings) {
  Player player(trace, settings);
  ReplayResult result;
  size_t count = trace.events.size();
  Plan *plan = settings.plan ? planner_of(*player.heap).plan("trace", 1) : nullptr;
  for (int turn = 0; turn < settings.repetitions; ++turn) {
    Repetition one;
    size_t steps = turn == 0 && settings.samples ? std::min<size_t>(settings.samples, count) : 1;
    size_t at = 0;
    bool making = plan && plan->state == Plan::State::ready;
    player.driver.calls = {};
    if (plan && planner_of(*player.heap).begin_step(*plan) != TB_OK) break;
    player.driver.peak = player.driver.used;
    if (making) player.driver.calls = {}; // the calls that make the plan are not counted
    auto begin = std::chrono::steady_clock::now();
    for (size_t step = 1; step <= steps; ++step) {
      size_t to = count * step / steps;
      at = player.play(at, to);
      if (steps > 1) {
        tb_allocator_statistics now{};
        player.heap->statistics(&now);
        result.samples.push_back(
            {at, static_cast<uint64_t>(now.allocated_bytes[0].current), static_cast<uint64_t>(player.driver.used)});
      }
      if (at != to) break;
    }
    one.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    one.completed = at == count;
    if (!one.completed) {
      one.failed_event = at;
      one.failed_bytes = trace.events[at].bytes;
    }
    one.peak_reserved = player.driver.peak;
    one.calls = player.driver.calls;
    player.free_all();
    if (plan) planner_of(*player.heap).end_step(*plan, one.completed);
    result.repetitions.push_back(one);
    if (!one.completed) break;
  }
  if (plan) result.plan = plan->figures;
  player.heap->empty_cache();
  player.heap->shutdown();
  return result;
}

} // namespace tb::allocator
