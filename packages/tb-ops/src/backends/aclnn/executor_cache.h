// A cache of executors. A call that equals an earlier one reuses its executor and skips phase 1.
#pragma once
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backends/aclnn/description.h"

namespace tb::ops::aclnn {

struct ExecutorCounts {
  uint64_t hits, misses, dropped; // dropped: removed because the cache was full
  uint64_t kept, room;
};

// A repeatable executor, with the descriptions that it refers to.
class Repeatable {
public:
  Repeatable(native::Executor *executor, uint64_t workspace, Descriptions descriptions)
      : executor_(executor), workspace_(workspace), descriptions_(std::move(descriptions)) {}
  Repeatable(Repeatable &&other) noexcept;
  Repeatable &operator=(Repeatable &&other) noexcept;
  ~Repeatable();

  native::Executor *executor() const { return executor_; }
  uint64_t workspace() const { return workspace_; }
  // Points the executor to the storages of the next call, in the order of the first call's. Returns false if the
  // library refuses.
  bool move_to(const std::vector<void *> &storages);

private:
  native::Executor *executor_;
  uint64_t workspace_;
  Descriptions descriptions_;
};

// Keeps the most recently used executors. An executor in use is not in the cache, so that two threads never share one.
class ExecutorCache {
public:
  explicit ExecutorCache(size_t room) : room_(room) {}

  bool keeps() const { return room_ > 0; }
  // Removes the executor with that key from the cache and returns it; empty if there is none.
  std::optional<Repeatable> take(const std::string &key);
  void put(const std::string &key, Repeatable executor);
  ExecutorCounts counts();
  void clear();

private:
  using Entries = std::list<std::pair<std::string, Repeatable>>; // most recent first
  const size_t room_;
  std::mutex mutex_;
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> places_;
  uint64_t hits_ = 0, misses_ = 0, dropped_ = 0;
};

// Returns the process's cache. It keeps up to TB_ACLNN_EXECUTORS executors: 1024 by default, none if the variable is 0.
ExecutorCache &executor_cache();

} // namespace tb::ops::aclnn
