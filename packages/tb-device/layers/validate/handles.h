// Every handle that a driver gave, live or recently ended, for the layer validate.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "layers/framework/objects.h"
#include "layers/framework/sharded_map.h"

namespace tb::layers {

class StreamProgress;
struct EventPoint;

struct HandleFacts {
  int32_t device = -1; // -1: of no device in particular
  Slot made_by = Slot::count;
  uint64_t made = 0;  // number of the call
  uint64_t ended = 0; // number of the call that ended it, 0 while it lives
  Slot ended_by = Slot::count;
  bool borrowed = false; // not the caller's to destroy
  uint64_t size = 0;
  const void *owner = nullptr; // the stream of a closure storage, the module of a function
  uint64_t owner_made = 0;
  std::shared_ptr<StreamProgress> progress{}; // of a stream
  std::shared_ptr<const EventPoint> point{};  // of an event, NULL while it was never recorded
};

// Of one kind. Calls on different handles share nothing but a part of the map.
class Handles {
public:
  void made(const void *handle, HandleFacts facts) { map_.put(handle, std::move(facts)); }
  // Keeps what is there, for handles that are given more than once.
  void seen(const void *handle, const HandleFacts &facts) {
    if (const auto known = map_.find(handle); !known || known->ended) map_.put(handle, facts);
  }
  std::optional<HandleFacts> find(const void *handle) const { return map_.find(handle); }
  // Calls the body with a live handle's facts in place. False: there is none.
  template <class Body> bool with(const void *handle, Body &&body) {
    bool lives = false;
    map_.with(handle, [&](HandleFacts &facts) {
      if (facts.ended) return;
      lives = true;
      body(facts);
    });
    return lives;
  }
  // Marks a live handle as ended, before the driver is called: it may give the same address again at once. False: there
  // is no live one. revive() undoes it if the call fails.
  bool end(const void *handle, uint64_t call, Slot by);
  void revive(const void *handle);
  void forget(const void *handle) { (void)map_.take(handle); }
  template <class Body> void each(Body &&body) const { map_.each(body); }

private:
  static constexpr size_t remembered = 4096; // ended ones, so that a program that runs for days stays flat
  ShardedMap<HandleFacts> map_;
  std::mutex ended_mutex_;
  std::deque<std::pair<const void *, uint64_t>> ended_; // and the call that ended it
};

} // namespace tb::layers
