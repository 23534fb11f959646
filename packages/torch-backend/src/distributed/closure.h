// closure.h -- a function of the host that runs in stream order.
#pragma once
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "runtime.h"

namespace tb::distributed {

// `Function` returns the text of its failure, or "" for none. A failure is reported by the next wait that covers the stream.
template <class Function> struct Closure {
  Function function;

  static tb_status run(void *storage, const tb_closure_context *context) {
    const std::string failure = static_cast<Closure *>(storage)->function();
    if (failure.empty()) return TB_OK;
    if (context->error_text && context->error_capacity) {
      const size_t size = std::min<size_t>(failure.size(), context->error_capacity - 1);
      std::memcpy(context->error_text, failure.data(), size);
      context->error_text[size] = 0;
    }
    return TB_UNAVAILABLE;
  }
  static void destroy(void *storage) { static_cast<Closure *>(storage)->~Closure(); }
};

// Run also behind a failure: the other ranks wait for this one.
template <class Function> constexpr tb_closure closure_kind(const char *name) {
  return {sizeof(tb_closure), TB_CLOSURE_AFTER_FAILURE, name, &Closure<Function>::run, &Closure<Function>::destroy};
}

// A place in the queue of a stream, which is filled later. The order of the stream is the order of the reservations.
template <class Function> class Reservation {
public:
  Reservation(tb_stream *stream, const tb_closure &kind) : stream_(stream), kind_(kind) {
    static_assert(alignof(Closure<Function>) <= TB_CLOSURE_ALIGNMENT);
    check(runtime.driver->closure_reserve(runtime.self, stream, sizeof(Closure<Function>), &storage_), kind.name);
  }
  ~Reservation() {
    if (storage_) runtime.driver->closure_cancel(runtime.self, stream_, storage_);
  }
  Reservation(const Reservation &) = delete;
  Reservation &operator=(const Reservation &) = delete;

  void commit(Function function) {
    void *storage = std::exchange(storage_, nullptr);
    new (storage) Closure<Function>{std::move(function)};
    // With TB_LAUNCH_BLOCKING this is where its work fails.
    check(runtime.driver->closure_commit(runtime.self, stream_, storage, &kind_), kind_.name, -1, Failed::work);
  }

private:
  tb_stream *const stream_;
  const tb_closure &kind_;
  void *storage_ = nullptr;
};

template <class Function> void enqueue(tb_stream *stream, const tb_closure &kind, Function function) {
  Reservation<Function>(stream, kind).commit(std::move(function));
}

} // namespace tb::distributed
