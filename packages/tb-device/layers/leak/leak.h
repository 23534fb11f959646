// The layer that tracks live objects: which call made each, and its size.
//
// At close it logs every object that is still alive as a warning through the host (TB_LOG=warning shows them); the
// call's result is the driver's own. Has no options.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "layers/framework/layer.h"
#include "layers/framework/objects.h"
#include "layers/framework/options.h"
#include "layers/framework/sharded_map.h"

namespace tb::layers {

struct LiveObject {
  Kind kind;
  const void *handle;
  Slot made_by;
  uint64_t call; // its number, from 1, among all calls through the layer
  uint64_t size; // bytes; 0 for what has none
};

class Leak : public LayerOf<Leak> {
public:
  static constexpr const char *name = "leak";
  Leak(const tb_host *host, OptionReader &) : LayerOf(name, host) {}

  // In the order of the calls. Exact when no other thread calls meanwhile.
  std::vector<LiveObject> live() const;

  tb_status around(On<Slot::close>, Next next) {
    report();
    return next();
  }

  // One call may end several mappings.
  tb_status around(On<Slot::vmm_unmap>, Next next, void *address, uint64_t size) {
    calls_.fetch_add(1, std::memory_order_relaxed);
    const auto taken = mappings_within(address, size);
    for (const LiveObject &one : taken) (void)objects(Kind::mapping).take(one.handle);
    const tb_status status = next();
    if (tb_is_refusal(status))
      for (const LiveObject &one : taken) objects(Kind::mapping).put(one.handle, one);
    return status;
  }

  template <Slot S, class... A> tb_status around(On<S>, Next next, A... arguments) {
    const uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    if constexpr (made_by(S) != Kind::none) {
      const tb_status status = next();
      if (status == TB_OK) {
        const void *made = made_object<S>(arguments...);
        objects(made_by(S)).put(made, {made_by(S), made, S, call, size_argument<S>(arguments...)});
      }
      return status;
    } else if constexpr (taken_by(S) != Kind::none) {
      // Before the call: the driver may give the same address to another thread before it returns.
      const void *handle = taken_object<S>(arguments...);
      const auto taken = objects(taken_by(S)).take(handle);
      const tb_status status = next();
      if (tb_is_refusal(status) && taken) objects(taken_by(S)).put(handle, *taken);
      return status;
    } else {
      return next();
    }
  }

private:
  ShardedMap<LiveObject> &objects(Kind kind) { return objects_[static_cast<size_t>(kind)]; }
  std::vector<LiveObject> mappings_within(const void *address, uint64_t size) const;
  void report() const;

  std::atomic<uint64_t> calls_{0};
  std::array<ShardedMap<LiveObject>, static_cast<size_t>(Kind::count)> objects_;
};

} // namespace tb::layers
