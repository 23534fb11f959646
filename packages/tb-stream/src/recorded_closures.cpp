// recorded_closures.cpp -- the functions of the driver's table for closures, which give each a header in its storage.
#include <algorithm>
#include <cstring>
#include <new>

#include "recorded_calls.h"
#include "recorded_table.h"
#include "recorder.h"

namespace tb::stream {
namespace {

struct alignas(TB_CLOSURE_ALIGNMENT) Header {
  const WrappedKind *kind;
  uint64_t number;    // 0: the closure is captured
  int64_t call_begin; // of the reserve
};

std::byte *inside(void *storage) { return static_cast<std::byte *>(storage) + sizeof(Header); }
void *outside(void *storage) { return static_cast<std::byte *>(storage) - sizeof(Header); }

tb_status run_wrapped(void *storage, const tb_closure_context *context);

// The context that the closure inside receives. Its `next` gives closures without their headers, so that a closure knows
// those behind it. A recorded closure runs alone, so that each has a run of its own.
struct InnerContext {
  tb_closure_context given{};
  const tb_closure_context *outer;
  void *last = nullptr; // what the driver returned last

  explicit InnerContext(const tb_closure_context *context) : outer(context) {
    const uint32_t size = std::min<uint32_t>(context->struct_size, sizeof given);
    std::memcpy(&given, context, size);
    given.struct_size = size;
    if (given.next) given.next = recording() ? nullptr : &next;
  }

  static const tb_closure *next(const tb_closure_context *context, void **storage) {
    static_assert(offsetof(InnerContext, given) == 0);
    auto &self = *reinterpret_cast<InnerContext *>(const_cast<tb_closure_context *>(context));
    void *found = *storage ? self.last : nullptr;
    const tb_closure *kind = self.outer->next(self.outer, &found);
    if (!kind) return nullptr;
    self.last = found;
    const bool wrapped = kind->run == &run_wrapped;
    *storage = wrapped ? inside(found) : found;
    return wrapped ? static_cast<Header *>(found)->kind->inner : kind;
  }
};

tb_status run_wrapped(void *storage, const tb_closure_context *context) {
  const Header header = *static_cast<Header *>(storage);
  const tb_closure &inner = *header.kind->inner;
  InnerContext own(context);
  const RecordedThread *thread = recording() && !header.number ? this_thread() : nullptr;
  const uint64_t graph = thread ? thread->graph : 0;
  if (!recording() || (!header.number && !graph)) return inner.run(inside(storage), &own.given);
  tb_record run{};
  run.kind = TB_RECORD_KERNEL;
  run.name = inner.name;
  run.stream = context->stream;
  run.device = context->device;
  run.number = graph ? next_record() : header.number;
  run.graph = graph;
  run.begin = now();
  const tb_status status = inner.run(inside(storage), &own.given);
  run.end = now();
  note_run(run);
  return status;
}

void destroy_wrapped(void *storage) { static_cast<Header *>(storage)->kind->inner->destroy(inside(storage)); }

// Throws std::bad_alloc.
const WrappedKind *wrapped(const tb_closure *closure) {
  const WrappedKind *&mine = this_thread()->kinds[closure]; // the thread has reserved, and is known
  if (mine) return mine;
  RecordedTable &all = recorded_table();
  std::lock_guard guard(all.mutex);
  std::unique_ptr<WrappedKind> &kind = all.kinds[closure];
  if (!kind)
    kind = std::make_unique<WrappedKind>(WrappedKind{
        {sizeof(tb_closure), closure->flags & TB_CLOSURE_AFTER_FAILURE, closure->name, run_wrapped, destroy_wrapped},
        closure});
  return mine = kind.get();
}

void count_down(RecordedTable &all) {
  if (all.reserved.fetch_sub(1) != 1 || all.wrapping) return;
  std::lock_guard guard(all.mutex);
  if (!all.ended) put_closure_functions(all);
}

bool take_reserved(void *storage) {
  RecordedThread *thread = this_thread();
  if (!thread) return false;
  const auto found = std::find(thread->reserved.begin(), thread->reserved.end(), storage);
  if (found == thread->reserved.end()) return false;
  thread->reserved.erase(found);
  return true;
}

// NULL with TB_OK if the closure is to have no header.
void *reserve_with_header(RecordedTable &all, tb_stream *stream, uint64_t size, tb_status *status) {
  const bool captured = is_captured(stream);
  RecordedThread *thread = captured || recording() ? this_thread() : nullptr;
  if (!thread || size > UINT64_MAX - sizeof(Header)) return nullptr;
  try {
    thread->reserved.reserve(thread->reserved.size() + 1);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
  const int64_t begin = now();
  void *storage = nullptr;
  *status = all.driver.closure_reserve(all.self, stream, size + sizeof(Header), &storage);
  if (*status == TB_OUT_OF_RANGE) { // it may fit without
    drop_error();
    *status = TB_OK;
  }
  if (!storage) return nullptr;
  new (storage) Header{nullptr, captured ? 0 : next_record(), begin};
  thread->reserved.push_back(inside(storage));
  return inside(storage);
}

tb_status closure_reserve(tb_driver *self, tb_stream *stream, uint64_t size, void **out) {
  RecordedTable &all = recorded_table();
  all.reserved.fetch_add(1);
  tb_status status = TB_OK;
  void *storage = all.wrapping ? reserve_with_header(all, stream, size, &status) : nullptr;
  if (storage) {
    *out = storage;
    return TB_OK;
  }
  count_down(all);
  return status == TB_OK ? all.driver.closure_reserve(self, stream, size, out) : status;
}

tb_status closure_commit(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
  RecordedTable &all = recorded_table();
  if (!take_reserved(storage)) return all.driver.closure_commit(self, stream, storage, closure);
  auto *header = static_cast<Header *>(outside(storage));
  try {
    header->kind = wrapped(closure);
  } catch (const std::bad_alloc &) {
    (void)all.driver.closure_cancel(self, stream, header);
    count_down(all);
    return fail(TB_INTERNAL, -1, "closure_commit", "the host has no memory left to record the operation");
  }
  const tb_closure *kind = &header->kind->own;
  tb_record call{};
  call.kind = TB_RECORD_KERNEL;
  call.name = closure->name;
  call.stream = stream;
  call.device = -1;
  call.number = header->number; // the header must not be read after the commit: the closure may have run
  call.call_begin = header->call_begin;
  const tb_status status = all.driver.closure_commit(self, stream, header, kind);
  count_down(all);
  if (call.number && status == TB_OK) note_call(call);
  return status;
}

tb_status closure_cancel(tb_driver *self, tb_stream *stream, void *storage) {
  RecordedTable &all = recorded_table();
  if (!take_reserved(storage)) return all.driver.closure_cancel(self, stream, storage);
  const tb_status status = all.driver.closure_cancel(self, stream, outside(storage));
  count_down(all);
  return status;
}

} // namespace

void put_closure_functions(RecordedTable &all) {
  if (all.wrapping) { // the reserve last: only the other two can handle storage with a header
    put(all.table->closure_commit, &closure_commit);
    put(all.table->closure_cancel, &closure_cancel);
    put(all.table->closure_reserve, &closure_reserve);
    return;
  }
  put(all.table->closure_reserve, all.driver.closure_reserve);
  if (all.reserved != 0) return;
  put(all.table->closure_commit, all.driver.closure_commit);
  put(all.table->closure_cancel, all.driver.closure_cancel);
}

} // namespace tb::stream
