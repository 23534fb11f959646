// A cache of executors: phase 1 is skipped if a call is like an earlier one.
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
  uint64_t hits, misses, dropped; // dropped: for want of room
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
  // Sets the storages of the next call, in the order of the first one's. False: the library refuses.
  bool move_to(const std::vector<void *> &storages);

private:
  native::Executor *executor_;
  uint64_t workspace_;
  Descriptions descriptions_;
};

// The most recently used ones. An executor in use is not here, so that two threads never share one.
class ExecutorCache {
public:
  explicit ExecutorCache(size_t room) : room_(room) {}

  bool keeps() const { return room_ > 0; }
  // Takes one out.
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

// The process's: room for TB_ACLNN_EXECUTORS of them, 1024 where that is not set, 0: none is kept.
ExecutorCache &executor_cache();

} // namespace tb::ops::aclnn
