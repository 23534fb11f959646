// Drivers that run what a failing closure should leave out, or the reverse.
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "contract/mutant.h"

namespace tb::contract::closures_after_failure_mutants {
namespace {

// Commits a closure with other flags than its own. The kinds that this makes are kept.
tb_status commit_with(uint32_t flags, tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
  static std::mutex mutex;
  static std::map<std::pair<const tb_closure *, uint32_t>, tb_closure> kinds;
  const tb_closure *kind = closure;
  if (closure) {
    std::lock_guard lock(mutex);
    tb_closure &changed = kinds.try_emplace({closure, flags}, *closure).first->second;
    changed.flags = flags;
    kind = &changed;
  }
  return real().closure_commit(self, stream, storage, kind);
}

TB_MUTANT(closure_failure_ignored, "cpu", "closure_commit.6", "CLO-06", "closures behind a failing run are run") {
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_with(TB_CLOSURE_AFTER_FAILURE, self, stream, storage, closure);
  };
}

TB_MUTANT(closure_failure_ignored_by_sets, "cpu", "closure_commit.6", "CLO-06",
          "memory is set behind a failing run, too") {
  struct Set {
    void *dst;
    uint32_t value;
  };
  static constexpr tb_closure set = {sizeof(tb_closure), TB_CLOSURE_AFTER_FAILURE, "mem_set",
                                     [](void *storage, const tb_closure_context *) -> tb_status {
                                       const Set &one = *static_cast<Set *>(storage);
                                       std::memcpy(one.dst, &one.value, sizeof one.value);
                                       return TB_OK;
                                     },
                                     [](void *) {}};
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) {
    if (!stream || size != sizeof pattern || count != 1)
      return real().mem_set(self, device, stream, dst, pattern, size, count);
    void *storage = nullptr;
    if (const tb_status status = real().closure_reserve(self, stream, sizeof(Set), &storage)) return status;
    *static_cast<Set *>(storage) = {dst, pattern};
    return real().closure_commit(self, stream, storage, &set);
  };
}

TB_MUTANT(closure_failure_ends_at_events, "cpu", "closure_commit.6", "CLO-18",
          "closures of a stream that waits for a failed one are run") {
  static std::mutex mutex;
  static std::set<tb_stream *> waited;
  api.stream_wait_event = [](tb_driver *self, tb_stream *stream, tb_event *event) {
    {
      std::lock_guard lock(mutex);
      waited.insert(stream);
    }
    return real().stream_wait_event(self, stream, event);
  };
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    {
      std::lock_guard lock(mutex);
      if (!waited.contains(stream)) return real().closure_commit(self, stream, storage, closure);
    }
    return commit_with(TB_CLOSURE_AFTER_FAILURE, self, stream, storage, closure);
  };
}

// Leaves out by the time of the run instead of the time of the call.
TB_MUTANT(closure_failure_ends_at_report, "cpu", "closure_commit.6", "CLO-19",
          "closures that were queued before the report, and have their turn after it, are run") {
  static std::atomic<tb_stream *> failed; // the one whose closure failed
  static std::atomic<bool> reported;
  static std::mutex mutex;
  static std::map<void *, const tb_closure *> meant;
  failed = nullptr;
  reported = false;
  static constexpr auto original = [](void *storage) {
    std::lock_guard lock(mutex);
    return meant.at(storage);
  };
  static constexpr tb_closure instead = {sizeof(tb_closure), TB_CLOSURE_AFTER_FAILURE, "closure",
                                         [](void *storage, const tb_closure_context *context) -> tb_status {
                                           if (failed == context->stream && !reported) return TB_OK;
                                           const tb_status status = original(storage)->run(storage, context);
                                           if (status) failed = context->stream;
                                           return status;
                                         },
                                         [](void *storage) { original(storage)->destroy(storage); }};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    {
      std::lock_guard lock(mutex);
      meant[storage] = closure;
    }
    return real().closure_commit(self, stream, storage, &instead);
  };
  api.event_synchronize = [](tb_driver *self, tb_event *event) {
    const tb_status status = real().event_synchronize(self, event);
    if (status) reported = true;
    return status;
  };
}

TB_MUTANT(closure_after_failure_left_out, "cpu", "closure_commit.7", "CLO-20",
          "a closure that allows to be run behind a failure is left out") {
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    const uint32_t flags = closure ? closure->flags & ~uint32_t(TB_CLOSURE_AFTER_FAILURE) : 0;
    return commit_with(flags, self, stream, storage, closure);
  };
}

} // namespace
} // namespace tb::contract::closures_after_failure_mutants
