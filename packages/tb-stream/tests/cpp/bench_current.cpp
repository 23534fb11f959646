// bench_current.cpp -- nanoseconds of tb_stream_table.current, called from a library through the table. Not a test.
//
//   meson setup build -Dnative_tests=true && meson compile -C build bench_current && build/tests/cpp/bench_current
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "host.h"
#include "table.h"

struct tb_stream {
  int nothing;
};

int main() {
  static tb_stream standard;
  static tb_driver_api api{};
  api.stream_default = [](tb_driver *, int32_t, tb_stream **out) -> tb_status {
    *out = &standard;
    return TB_OK;
  };
  tb::host.driver = [](const tb_driver_api **out_api, tb_driver **) -> tb_status {
    *out_api = &api;
    return TB_OK;
  };
  tb::host.device_count = [](int32_t *out) -> tb_status {
    *out = 1;
    return TB_OK;
  };
  tb_stream_table table = tb::stream::stream_table;
  double best = 1e9;
  uintptr_t sum = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 10000; ++i) {
      sum += reinterpret_cast<uintptr_t>(table.current(0));
      asm volatile("" : "+r"(sum));
    }
    std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, passed.count() / 10000);
  }
  printf("current stream %.2f ns\n", best);
}
