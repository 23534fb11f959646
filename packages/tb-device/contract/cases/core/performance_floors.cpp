// PRF: performance floors. Failures are warnings by default; each takes the best of several tries, so that a
// busy machine is not taken for a slow driver.
#include <algorithm>

#include "contract/support/probe.h"

namespace tb::contract::performance_floors_cases {
namespace {

// Seconds for one call of `body(count)`, the best of five tries of `count`.
template <class Body> double best_seconds(int count, Body &&body) {
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = seconds_now();
    body(count);
    best = std::min(best, (seconds_now() - start) / count);
  }
  return best;
}

void check_floor(Kit &kit, const char *what, double seconds, double most) {
  kit.state(std::string(what) + " takes " + std::to_string(seconds * 1e6) + " us");
  CHECK(seconds < most);
}

TB_CASE(PRF, 01, TB_GROUP_ASYNC, "T5", "enqueueing a copy takes less than 20 us", .warn = true) {
  auto [api, self] = driver_of(kit);
  Block from(kit, 64), to(kit, 64);
  Stream stream(kit);
  const double seconds = best_seconds(500, [&, api = &api, self = self](int count) {
    for (int i = 0; i < count; ++i)
      CHECK_OK(api->mem_copy(self, 0, stream, to.data(), from.data(), 64, TB_COPY_DEVICE_TO_DEVICE));
  });
  stream.synchronize();
  check_floor(kit, "enqueueing a copy", seconds, 20e-6);
}

TB_CASE(PRF, 02, TB_GROUP_ASYNC, "event_query.2 T5", "an event's record and query take less than 5 us", .warn = true) {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit);
  const double seconds = best_seconds(2000, [&, api = &api, self = self](int count) {
    for (int i = 0; i < count; ++i) {
      CHECK_OK(api->event_record(self, event, stream));
      const tb_status status = api->event_query(self, event);
      CHECK(status == TB_OK || status == TB_NOT_READY);
    }
  });
  stream.synchronize();
  check_floor(kit, "an event's record and query", seconds, 5e-6);
}

TB_CASE(PRF, 03, TB_GROUP_CORE, "mem_alloc.4 mem_free.1", "a small block is allocated and freed in less than 200 us",
        .warn = true) {
  auto [api, self] = driver_of(kit);
  const double seconds = best_seconds(200, [&, api = &api, self = self](int count) {
    for (int i = 0; i < count; ++i) {
      void *memory = nullptr;
      CHECK_OK(api->mem_alloc(self, 0, 4096, 0, &memory));
      CHECK_OK(api->mem_free(self, 0, memory));
    }
  });
  check_floor(kit, "an allocation and its free", seconds, 200e-6);
}

TB_CASE(PRF, 04, TB_GROUP_PIN, "mem_alloc_host.2", "pinned memory is copied at least half as fast as pageable",
        .warn = true) {
  auto [api, self] = driver_of(kit);
  constexpr uint64_t block_bytes = 8 << 20;
  Block block(kit, block_bytes);
  std::vector<uint8_t> pageable(block_bytes, 1);
  void *pinned = nullptr;
  CHECK_OK(api.mem_alloc_host(self, 0, block_bytes, 0, &pinned));
  const auto copy_from = [&](const void *src) {
    return best_seconds(2, [&](int count) {
      for (int i = 0; i < count; ++i) kit.to_device(block.data(), src, block_bytes);
    });
  };
  copy_from(pinned); // its pages are touched
  const double from_pageable = copy_from(pageable.data()), from_pinned = copy_from(pinned);
  CHECK_OK(api.mem_free_host(self, pinned));
  check_floor(kit, "a copy of 8 MiB from pinned memory", from_pinned, 2 * from_pageable);
}

TB_CASE(PRF, 05, TB_GROUP_ASYNC, "stream_wait_event.4 T2", "a wait on one stream does not slow another down",
        .warn = true) {
  auto [api, self] = driver_of(kit);
  Stream first(kit), waits(kit), free(kit);
  Block words(kit, 8);
  const auto work = [&] {
    return best_seconds(100, [&](int count) {
      for (int i = 0; i < count; ++i) set_word(kit, free, words.data(), 1);
      free.synchronize();
    });
  };
  const double alone = work();
  Event event(kit);
  Gate gate(kit, first);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.event_record(self, event, first));
  CHECK_OK(api.stream_wait_event(self, waits, event));
  set_word(kit, waits, words.data() + 4, 2);
  const double beside = work();
  CHECK(!rescue.opened());
  gate.open();
  waits.synchronize();
  check_floor(kit, "a fill beside a waiting stream", beside, 10 * alone + 50e-6);
}

TB_CASE(PRF, 06, TB_GROUP_ASYNC, "stream_query.2", "a query takes less than 5 us, idle and busy", .warn = true) {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  const auto ask = [&, api = &api, self = self](tb_status want) {
    return best_seconds(2000, [&](int count) {
      for (int i = 0; i < count; ++i) CHECK_EQUAL(api->stream_query(self, stream), want);
    });
  };
  const double idle = ask(TB_OK);
  Gate gate(kit, stream);
  const double busy = ask(TB_NOT_READY);
  check_floor(kit, "a query of an idle stream", idle, 5e-6);
  check_floor(kit, "a query of a busy stream", busy, 5e-6);
}

TB_CASE(PRF, 07, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "closure_reserve.1 closure_commit.1",
        "a closure is queued and run in less than 20 us", .warn = true) {
  Stream stream(kit);
  const double seconds = best_seconds(1000, [&](int count) {
    int ran = 0;
    for (int i = 0; i < count; ++i) submit(kit, stream, [&ran] { ++ran; });
    stream.synchronize();
    CHECK_EQUAL(ran, count);
  });
  check_floor(kit, "a closure", seconds, 20e-6);
}

} // namespace
} // namespace tb::contract::performance_floors_cases
