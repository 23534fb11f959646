// A hash map by address in parts with a lock each, so that calls on different handles do not meet.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace tb::layers {

template <class Value> class ShardedMap {
public:
  void put(const void *key, Value value) {
    Shard &shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    shard.values.insert_or_assign(key, std::move(value));
  }
  std::optional<Value> find(const void *key) const {
    Shard &shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    const auto found = shard.values.find(key);
    return found == shard.values.end() ? std::nullopt : std::optional<Value>(found->second);
  }
  std::optional<Value> take(const void *key) {
    Shard &shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    const auto found = shard.values.find(key);
    if (found == shard.values.end()) return std::nullopt;
    std::optional<Value> out = std::move(found->second);
    shard.values.erase(found);
    return out;
  }
  template <class Condition> void take_if(const void *key, Condition &&condition) {
    Shard &shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    const auto found = shard.values.find(key);
    if (found != shard.values.end() && condition(found->second)) shard.values.erase(found);
  }
  // The body sees the value in place, under its part's lock; returns whether there is one.
  template <class Body> bool with(const void *key, Body &&body) {
    Shard &shard = shard_of(key);
    std::lock_guard lock(shard.mutex);
    const auto found = shard.values.find(key);
    if (found == shard.values.end()) return false;
    body(found->second);
    return true;
  }
  // Each value, part by part: not one moment's picture while others call.
  template <class Body> void each(Body &&body) const {
    for (Shard &shard : shards_) {
      std::lock_guard lock(shard.mutex);
      for (const auto &[key, value] : shard.values) body(key, value);
    }
  }

private:
  struct alignas(64) Shard { // a cache line: the locks do not share one
    std::mutex mutex;
    std::unordered_map<const void *, Value> values;
  };
  static constexpr unsigned shard_bits = 5;
  Shard &shard_of(const void *key) const {
    // The upper bits of a product depend on all bits of the address; the lowest six are zero in most.
    const uint64_t mixed = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15u;
    return shards_[mixed >> (64 - shard_bits)];
  }
  mutable std::array<Shard, 1u << shard_bits> shards_;
};

} // namespace tb::layers
