// The CPU driver as a host opens it, for tests: options, error text, handles that free themselves.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "drivers/cpu/cpu_driver.h"

namespace test {

inline thread_local std::string error_text;
inline thread_local tb_status error_status = TB_OK;
using Options = std::map<std::string, std::string>;
inline Options option_values;
inline tb_driver_open_fn entry = tb_cpu_driver_open_v1; // the entry function of the driver under test

inline std::string take_error() { return std::exchange(error_text, {}); }

inline const tb_host &host() {
  static const tb_host value = {sizeof(tb_host),
                                TB_ABI_MAJOR,
                                TB_ABI_MINOR,
                                [](tb_status status, int64_t, const char *text) {
                                  error_status = status;
                                  error_text = text;
                                },
                                [](int32_t, const char *) {},
                                [](const char *key) -> const char * {
                                  const auto found = option_values.find(key);
                                  return found == option_values.end() ? nullptr : found->second.c_str();
                                },
                                nullptr,
                                nullptr};
  return value;
}

inline tb_status open(tb_driver_api *api, tb_driver **self, Options options = {}) {
  option_values = std::move(options);
  *api = {};
  api->struct_size = sizeof *api;
  return entry(&host(), api, self);
}

// Open for its scope. A close that is refused is a leak of the test: it ends the program.
struct OpenedDriver {
  tb_driver_api api;
  tb_driver *self = nullptr;

  explicit OpenedDriver(Options options = {}) {
    if (open(&api, &self, std::move(options)) != TB_OK) throw std::runtime_error("open failed: " + take_error());
  }
  ~OpenedDriver() {
    if (api.close(self) == TB_OK || std::uncaught_exceptions()) return; // a failed case may leak
    std::fprintf(stderr, "close was refused: %s\n", take_error().c_str());
    std::abort();
  }
  OpenedDriver(const OpenedDriver &) = delete;
  OpenedDriver &operator=(const OpenedDriver &) = delete;

  tb_stream *default_stream(int32_t device = 0) {
    tb_stream *stream = nullptr;
    if (api.stream_default(self, device, &stream)) throw std::runtime_error(take_error());
    return stream;
  }
  tb_stream *create_stream(int32_t device = 0) {
    tb_stream *stream = nullptr;
    if (api.stream_create(self, device, 0, 0, &stream)) throw std::runtime_error(take_error());
    return stream;
  }
  tb_event *create_event(uint64_t flags = 0, int32_t device = 0) {
    tb_event *event = nullptr;
    if (api.event_create(self, device, flags, &event)) throw std::runtime_error(take_error());
    return event;
  }
  void *allocate(uint64_t size, int32_t device = 0) {
    void *pointer = nullptr;
    if (api.mem_alloc(self, device, size, 0, &pointer)) throw std::runtime_error(take_error());
    return pointer;
  }

  // Queues a callable that may take the context and may return a status or throw.
  template <uint32_t flags = 0, class Call> void submit(tb_stream *stream, Call call) {
    static const tb_closure closure = {
        sizeof(tb_closure), flags, "test",
        [](void *storage, const tb_closure_context *context) -> tb_status {
          Call &stored = *static_cast<Call *>(storage);
          if constexpr (std::is_invocable_r_v<tb_status, Call, const tb_closure_context *>) {
            return stored(context);
          } else if constexpr (std::is_same_v<std::invoke_result_t<Call>, void>) {
            stored();
            return TB_OK;
          } else {
            return stored();
          }
        },
        [](void *storage) { static_cast<Call *>(storage)->~Call(); }};
    void *storage = nullptr;
    if (api.closure_reserve(self, stream, sizeof(Call), &storage)) throw std::runtime_error(take_error());
    new (storage) Call(std::move(call));
    if (api.closure_commit(self, stream, storage, &closure)) throw std::runtime_error(take_error());
  }
};

// Gives the number of closures that the running one sees behind itself; the driver's own work counts.
inline int count_behind(const tb_closure_context *context) {
  int count = 0;
  for (void *storage = nullptr; context->next(context, &storage);) ++count;
  return count;
}

// Holds a stream's worker until opened.
struct Gate {
  std::atomic<bool> is_open{false};
  void open() { is_open.store(true); }
  void pass() const {
    while (!is_open.load()) std::this_thread::yield();
  }
};

} // namespace test
