// trace.cpp -- records a timeline by replacing entries of the driver's table.
#include "trace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "capturing.h"
#include "trace_text.h"

namespace tb::stream {
namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int32_t thread_number() {
  static std::atomic<int32_t> threads{0};
  static thread_local const int32_t mine = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

// A kind of closures with a header, under the name of the kind inside.
struct Wrapped {
  tb_closure own;
  const tb_closure *inner;
};

struct alignas(TB_CLOSURE_ALIGNMENT) Header {
  const Wrapped *kind;
  tb_stream *stream;
  uint64_t number;
  int64_t reserved;
};

// Work that is queued between two host calls.
struct Span {
  const char *name;
  tb_stream *stream;
  uint64_t number;
  int64_t begun = 0;
};

struct State {
  std::mutex mutex; // guards everything below except the atomics
  std::vector<TraceRecord> records;
  std::unordered_map<const tb_closure *, std::unique_ptr<Wrapped>> kinds;
  std::atomic<bool> on{false};
  std::atomic<uint64_t> numbers{0};
  int64_t start = 0;
  tb_driver_api *table = nullptr;
  tb_driver *self = nullptr;
  tb_driver_api driver{}; // the original entries of the table
};
State &state() {
  static State *made = new State; // queued work may end after the static destructors
  return *made;
}

void note(TraceRecord::Kind kind, const char *name, tb_stream *stream, uint64_t number, int64_t begin,
          int64_t end) noexcept {
  State &all = state();
  if (!all.on.load(std::memory_order_relaxed)) return;
  try {
    const int32_t thread = thread_number();
    std::lock_guard guard(all.mutex);
    all.records.push_back({kind, name, stream, thread, number, begin, end});
  } catch (const std::bad_alloc &) { // the record is left out of the timeline
  }
}

// ---- closures ------------------------------------------------------------------------------------------------------

std::byte *inside(void *storage) { return static_cast<std::byte *>(storage) + sizeof(Header); }

tb_status run_wrapped(void *storage, const tb_closure_context *context) {
  const Header header = *static_cast<Header *>(storage);
  const int64_t begin = now();
  const tb_status status = header.kind->inner->run(inside(storage), context);
  note(TraceRecord::Kind::run, header.kind->own.name, header.stream, header.number, begin, now());
  return status;
}

void destroy_wrapped(void *storage) { static_cast<Header *>(storage)->kind->inner->destroy(inside(storage)); }

const Wrapped *wrapped(const tb_closure *closure) {
  State &all = state();
  std::lock_guard guard(all.mutex);
  std::unique_ptr<Wrapped> &kind = all.kinds[closure];
  if (!kind)
    kind = std::make_unique<Wrapped>(
        Wrapped{{sizeof(tb_closure), 0, closure->name, run_wrapped, destroy_wrapped}, closure});
  return kind.get();
}

thread_local std::vector<void *> reserved_here; // storage with a header, neither committed nor cancelled yet

bool take_reserved(void *storage) {
  const auto found = std::find(reserved_here.begin(), reserved_here.end(), storage);
  if (found == reserved_here.end()) return false;
  reserved_here.erase(found);
  return true;
}

void *outside(void *storage) { return static_cast<std::byte *>(storage) - sizeof(Header); }

tb_status closure_reserve(tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
  State &all = state();
  const int64_t begin = now();
  void *storage = nullptr;
  if (size > UINT64_MAX - sizeof(Header)) return all.driver.closure_reserve(self, stream, size, out);
  reserved_here.reserve(reserved_here.size() + 1);
  if (tb_status status = all.driver.closure_reserve(self, stream, size + sizeof(Header), &storage); status != TB_OK)
    return status;
  new (storage) Header{nullptr, stream, all.numbers.fetch_add(1) + 1, begin};
  reserved_here.push_back(*out = inside(storage));
  return TB_OK;
}

tb_status closure_commit(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
  State &all = state();
  if (!take_reserved(storage)) return all.driver.closure_commit(self, stream, storage, closure);
  auto *header = static_cast<Header *>(outside(storage));
  header->kind = wrapped(closure);
  const int64_t begin = header->reserved;
  const uint64_t number = header->number;
  const tb_closure *kind = &header->kind->own; // the header must not be read after the commit: the closure may have run
  const tb_status status = all.driver.closure_commit(self, stream, header, kind);
  note(TraceRecord::Kind::launch, kind->name, stream, number, begin, now());
  return status;
}

tb_status closure_cancel(tb_driver *self, tb_stream *stream, void *storage) {
  return state().driver.closure_cancel(self, stream, take_reserved(storage) ? outside(storage) : storage);
}

// ---- other work ----------------------------------------------------------------------------------------------------

// Returns NULL while a capture is in progress: the host calls would become part of it.
Span *open_span(tb_stream *stream, const char *name) {
  State &all = state();
  if (!stream || __atomic_load_n(&capturing, __ATOMIC_RELAXED) != 0) return nullptr;
  auto span = std::make_unique<Span>(name, stream, all.numbers.fetch_add(1) + 1);
  const tb_status status = all.driver.stream_host_call(
      all.self, stream, [](void *user, tb_status) { static_cast<Span *>(user)->begun = now(); }, span.get());
  return status == TB_OK ? span.release() : nullptr;
}

void close_span(Span *span) {
  if (!span) return;
  State &all = state();
  const auto end = [](void *user, tb_status) {
    const std::unique_ptr<Span> owned(static_cast<Span *>(user));
    note(TraceRecord::Kind::run, owned->name, owned->stream, owned->number, owned->begun, now());
  };
  // If this fails, the first call may still be pending and use the span, which is therefore not freed.
  (void)all.driver.stream_host_call(all.self, span->stream, end, span);
}

template <class... Rest> tb_stream *stream_of(tb_stream *stream, Rest...) { return stream; }
template <class... Rest> tb_stream *stream_of(int32_t, tb_stream *stream, Rest...) { return stream; }

template <auto slot, const char *name, class Function> struct Queued;
template <auto slot, const char *name, class... Arguments>
struct Queued<slot, name, tb_status (*)(tb_driver *, Arguments...)> {
  static tb_status call(tb_driver *self, Arguments... arguments) {
    const int64_t begin = now();
    Span *span = open_span(stream_of(arguments...), name);
    const uint64_t number = span ? span->number : 0;
    const tb_status status = (state().driver.*slot)(self, arguments...);
    close_span(span);
    note(TraceRecord::Kind::launch, name, stream_of(arguments...), number, begin, now());
    return status;
  }
};

template <auto slot, const char *name, class Function> struct Waiting;
template <auto slot, const char *name, class... Arguments>
struct Waiting<slot, name, tb_status (*)(tb_driver *, Arguments...)> {
  static tb_status call(tb_driver *self, Arguments... arguments) {
    const int64_t begin = now();
    const tb_status status = (state().driver.*slot)(self, arguments...);
    note(TraceRecord::Kind::wait, name, nullptr, 0, begin, now());
    return status;
  }
};

// ---- the table -----------------------------------------------------------------------------------------------------

template <class Slot> void put(Slot &slot, Slot function) { std::atomic_ref(slot).store(function); }

template <auto slot, const char *name, template <auto, const char *, class> class Traced> void exchange(bool on) {
  using Function = std::remove_cvref_t<decltype(std::declval<tb_driver_api &>().*slot)>;
  State &all = state();
  put<Function>(all.table->*slot, on ? &Traced<slot, name, Function>::call : all.driver.*slot);
}

constexpr char mem_copy[] = "mem_copy", mem_set[] = "mem_set", mem_copy_2d[] = "mem_copy_2d", peer_copy[] = "peer_copy",
               launch[] = "launch", stream_wait_event[] = "stream_wait_event", host_call[] = "stream_host_call",
               stream_synchronize[] = "stream_synchronize", device_synchronize[] = "device_synchronize",
               event_synchronize[] = "event_synchronize";

void exchange_all(bool on) {
  State &all = state();
  using Api = tb_driver_api;
  exchange<&Api::stream_synchronize, stream_synchronize, Waiting>(on);
  exchange<&Api::device_synchronize, device_synchronize, Waiting>(on);
  exchange<&Api::event_synchronize, event_synchronize, Waiting>(on);
  exchange<&Api::mem_copy, mem_copy, Queued>(on);
  exchange<&Api::mem_set, mem_set, Queued>(on);
  exchange<&Api::mem_copy_2d, mem_copy_2d, Queued>(on);
  exchange<&Api::peer_copy, peer_copy, Queued>(on);
  exchange<&Api::launch, launch, Queued>(on);
  exchange<&Api::stream_wait_event, stream_wait_event, Queued>(on);
  exchange<&Api::stream_host_call, host_call, Queued>(on);
  if (on) { // before closure_reserve is replaced: only these two can handle storage with a header
    put(all.table->closure_commit, &closure_commit);
    put(all.table->closure_cancel, &closure_cancel);
  }
  put(all.table->closure_reserve, on ? &closure_reserve : all.driver.closure_reserve);
}

} // namespace

tb_status start_trace() {
  State &all = state();
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  std::lock_guard guard(all.mutex);
  if (all.on) return fail(TB_FAILED_PRECONDITION, -1, "trace", "a timeline is being recorded already: one at a time");
  if (!all.table) {
    all.table = const_cast<tb_driver_api *>(driver.api); // tb-device's table, which is not a constant object
    all.self = driver.self;
    all.driver = *driver.api;
  }
  all.records.clear();
  all.start = now();
  all.on = true;
  exchange_all(true);
  return TB_OK;
}

tb_status stop_trace(std::string *out) {
  State &all = state();
  std::vector<TraceRecord> records;
  {
    std::lock_guard guard(all.mutex);
    if (!all.on) return fail(TB_FAILED_PRECONDITION, -1, "trace", "no timeline is being recorded");
    all.on = false;
    if (!*host.forked) exchange_all(false);
    records.swap(all.records);
  }
  *out = trace_text(records, all.start);
  return TB_OK;
}

TracedWork::TracedWork(tb_stream *stream, const char *name) : stream_(stream) {
  if (state().on.load(std::memory_order_relaxed)) span_ = open_span(stream, name);
}

TracedWork::~TracedWork() {
  auto *span = static_cast<Span *>(span_);
  if (!span) return;
  note(TraceRecord::Kind::launch, span->name, stream_, span->number, now(), now());
  close_span(span);
}

} // namespace tb::stream
