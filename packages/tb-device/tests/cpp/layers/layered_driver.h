// The CPU driver with layers around it, for tests.
#pragma once

#include "layers/framework/stack.h"
#include "layers/layers.h"
#include "tests/cpp/cpu/opened_driver.h"

namespace test {

struct LayeredDriver : OpenedDriver {
  explicit LayeredDriver(const std::string &spec, Options options = {}) : OpenedDriver(std::move(options)) {
    std::string problem;
    if (tb::layers::apply(spec, &host(), &api, &self, &problem) != TB_OK) throw std::runtime_error(problem);
  }
  template <class L> L &layer() { return *tb::layers::find<L>(self); }
  // Queues a fill of `size` bytes at `dst` with zeros; gives its status.
  tb_status set(tb_stream *stream, void *dst, uint64_t size, int32_t device = 0) {
    return api.mem_set(self, device, stream, dst, 0, 1, size);
  }
};

} // namespace test

// Checks that the call fails with this status and a text that contains each of these parts.
#define CHECK_REFUSED(call, status, ...)                                                                               \
  do {                                                                                                                 \
    (void)test::take_error();                                                                                          \
    CHECK_EQUAL((call), (status));                                                                                     \
    const std::string reported = test::take_error();                                                                   \
    for (const char *part : {__VA_ARGS__})                                                                             \
      check::that(reported.find(part) != std::string::npos, (std::string(part) + "  in  " + reported).c_str(),         \
                  __FILE__, __LINE__);                                                                                 \
  } while (false)
