// Drivers whose closures break a rule.
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "contract/mutant.h"

namespace tb::contract::closures_mutants {
namespace {

// The closures that were committed with another one in their place, by storage.
std::mutex committed_mutex;
std::map<void *, const tb_closure *> committed;

const tb_closure *original(void *storage) {
  std::lock_guard lock(committed_mutex);
  return committed.at(storage);
}

tb_status run_original(void *storage, const tb_closure_context *context) {
  return original(storage)->run(storage, context);
}

void destroy_original(void *storage) {
  const tb_closure *closure = original(storage);
  {
    std::lock_guard lock(committed_mutex);
    committed.erase(storage);
  }
  closure->destroy(storage);
}

// Commits `instead`, whose functions find the closure that was meant.
tb_status commit_instead(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure,
                         const tb_closure *instead) {
  {
    std::lock_guard lock(committed_mutex);
    committed[storage] = closure;
  }
  return real().closure_commit(self, stream, storage, instead);
}

TB_MUTANT(closure_not_destroyed, "cpu", "closure_commit.1", "CLO-01", "a closure's destroy is not called") {
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "closure", run_original, [](void *) {}};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

TB_MUTANT(closure_destroyed_in_commit, "cpu", "closure_commit.1", "CLO-01",
          "the thread that commits a closure destroys it") {
  static std::atomic<int> ran{0}, destroyed{0};
  ran = destroyed = 0;
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "closure",
                                         [](void *storage, const tb_closure_context *context) -> tb_status {
                                           const tb_status status = run_original(storage, context);
                                           ++ran;
                                           return status;
                                         },
                                         [](void *) { // the storage is the closure's until its destroy has ended
                                           while (destroyed < ran) std::this_thread::yield();
                                         }};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    const int before = ran;
    const tb_status status = commit_instead(self, stream, storage, closure, &instead);
    while (ran == before) std::this_thread::yield();
    destroy_original(storage);
    ++destroyed;
    return status;
  };
}

TB_MUTANT(closure_runs_twice, "cpu", "closure_commit.1", "CLO-01", "a closure's run is called twice") {
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "closure",
                                         [](void *storage, const tb_closure_context *context) {
                                           run_original(storage, context);
                                           return run_original(storage, context);
                                         },
                                         destroy_original};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

TB_MUTANT(closure_commit_order, "cpu", "closure_reserve.2", "CLO-02", "closures run in the order of their commits") {
  static std::mutex mutex;
  static std::map<void *, uint64_t> reserved; // storage of the mutant's own, and its size
  api.closure_reserve = [](tb_driver *, tb_stream *, uint64_t size, void **out) {
    std::lock_guard lock(mutex);
    *out = ::operator new(size, std::align_val_t(TB_CLOSURE_ALIGNMENT));
    reserved[*out] = size;
    return static_cast<tb_status>(TB_OK);
  };
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    std::lock_guard lock(mutex);
    void *place = nullptr;
    if (const tb_status status = real().closure_reserve(self, stream, reserved[storage], &place)) return status;
    std::memcpy(place, storage, reserved[storage]);
    reserved.erase(storage);
    ::operator delete(storage, std::align_val_t(TB_CLOSURE_ALIGNMENT));
    return real().closure_commit(self, stream, place, closure);
  };
}

TB_MUTANT(closure_cancel_runs, "cpu", "closure_cancel.2", "CLO-03",
          "a cancelled closure is run as the one committed last") {
  static std::atomic<const tb_closure *> last{nullptr};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    last = closure;
    return real().closure_commit(self, stream, storage, closure);
  };
  api.closure_cancel = [](tb_driver *self, tb_stream *stream, void *storage) {
    return real().closure_commit(self, stream, storage, last);
  };
}

TB_MUTANT(closure_queue_full_fails, "cpu", "closure_reserve.3", "CLO-04",
          "a full queue refuses the reserve instead of waiting") {
  static std::atomic<uint64_t> reserved{0};
  reserved = 0;
  api.closure_reserve = [](tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
    const bool full = (reserved += size) > 512 * 1024;
    return real().closure_reserve(self, stream, full ? UINT64_MAX : size, out);
  };
}

TB_MUTANT(closure_small_only, "cpu", "closure_reserve.4", "CLO-05", "closures of more than 32 KiB are refused") {
  api.closure_reserve = [](tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
    return real().closure_reserve(self, stream, size > 32 * 1024 ? UINT64_MAX : size, out);
  };
}

TB_MUTANT(closure_failure_stops_work, "cpu", "closure_commit.6", "CLO-06",
          "after a failing run the later closures are left out for ever") {
  static std::atomic<bool> failed{false};
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "closure",
                                         [](void *storage, const tb_closure_context *context) -> tb_status {
                                           if (failed) return TB_OK;
                                           const tb_status status = run_original(storage, context);
                                           failed = status != TB_OK;
                                           return status;
                                         },
                                         destroy_original};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

TB_MUTANT(closure_failure_nameless, "cpu", "closure_commit.3", "CLO-07",
          "a failure is reported without the operation's name") {
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "work", run_original, destroy_original};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

// Contexts with a `next` of their own, which may ask the real one.
struct Context {
  tb_closure_context given;
  const tb_closure_context *real;
};

tb_status commit_looking(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure,
                         decltype(tb_closure_context::next) next) {
  static std::atomic<decltype(tb_closure_context::next)> used;
  used = next;
  static constexpr tb_closure instead = {sizeof(tb_closure), 0, "closure",
                                         [](void *place, const tb_closure_context *context) {
                                           Context mine = {*context, context};
                                           mine.given.next = used;
                                           return run_original(place, &mine.given);
                                         },
                                         destroy_original};
  return commit_instead(self, stream, storage, closure, &instead);
}

// The kind that was meant for a storage that the real `next` gave.
const tb_closure *meant(const tb_closure *kind, void *storage) {
  std::lock_guard lock(committed_mutex);
  const auto found = committed.find(storage);
  return kind && found != committed.end() ? found->second : kind;
}

TB_MUTANT(closure_next_skips, "cpu", "closure_commit.4", "CLO-15", "a closure that looks ahead sees every other one") {
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_looking(self, stream, storage, closure, [](const tb_closure_context *context, void **behind) {
      const tb_closure_context *real = reinterpret_cast<const Context *>(context)->real;
      return real->next(real, behind) ? meant(real->next(real, behind), *behind) : nullptr;
    });
  };
}

TB_MUTANT(closure_next_over_work, "cpu", "closure_commit.4", "CLO-16",
          "a closure that looks ahead does not see what the driver does between") {
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_looking(self, stream, storage, closure,
                          [](const tb_closure_context *context, void **behind) -> const tb_closure * {
                            const tb_closure_context *real = reinterpret_cast<const Context *>(context)->real;
                            while (const tb_closure *kind = real->next(real, behind))
                              if (const tb_closure *known = meant(kind, *behind); known != kind) return known;
                            return nullptr;
                          });
  };
}

// What else takes the lock waits for a reserve that waits for room.
std::mutex reserving;

tb_status reserve_locked(tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
  std::lock_guard lock(reserving);
  return real().closure_reserve(self, stream, size, out);
}

TB_MUTANT(closure_commit_waits_for_reserve, "cpu", "closure_reserve.3", "CLO-13",
          "while a reserve waits for room, no commit gets in") {
  api.closure_reserve = reserve_locked;
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    std::lock_guard lock(reserving);
    return real().closure_commit(self, stream, storage, closure);
  };
}

TB_MUTANT(closure_cancel_waits_for_reserve, "cpu", "closure_reserve.3", "CLO-14",
          "while a reserve waits for room, no cancel gets in") {
  api.closure_reserve = reserve_locked;
  api.closure_cancel = [](tb_driver *self, tb_stream *stream, void *storage) {
    std::lock_guard lock(reserving);
    return real().closure_cancel(self, stream, storage);
  };
}

TB_MUTANT(closure_on_any_waiter, "cpu", "closure_commit.5", "CLO-17",
          "a thread that waits runs what does not allow it") {
  static constexpr tb_closure instead = {sizeof(tb_closure), TB_CLOSURE_ON_WAITER, "closure", run_original,
                                         destroy_original};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

TB_MUTANT(closure_waiter_unsaid, "cpu", "closure_commit.5", "CLO-17",
          "the context of a closure that a waiting thread runs does not say so") {
  static constexpr tb_closure instead = {sizeof(tb_closure), TB_CLOSURE_ON_WAITER, "closure",
                                         [](void *storage, const tb_closure_context *context) {
                                           tb_closure_context unsaid = *context;
                                           unsaid.on_waiter = 0;
                                           return run_original(storage, &unsaid);
                                         },
                                         destroy_original};
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
    if (!closure || !(closure->flags & TB_CLOSURE_ON_WAITER))
      return real().closure_commit(self, stream, storage, closure);
    return commit_instead(self, stream, storage, closure, &instead);
  };
}

} // namespace
} // namespace tb::contract::closures_mutants
