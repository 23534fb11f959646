// CLO: closures that may run on a thread that waits.
#include <cstddef>

#include "contract/support/probe.h"

namespace tb::contract::closures_on_waiters_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_CLOSURE;

// Where a closure ran.
struct Place {
  std::thread::id thread;
  bool on_waiter = false, destroyed_there = false;
};

template <uint32_t flags> void place(Kit &kit, tb_stream *stream, Place &place) {
  static constexpr tb_closure closure = {
      sizeof(tb_closure), flags, "contract_place",
      [](void *storage, const tb_closure_context *context) -> tb_status {
        Place &here = **static_cast<Place **>(storage);
        here.thread = std::this_thread::get_id();
        here.on_waiter = context->struct_size > offsetof(tb_closure_context, on_waiter) && context->on_waiter;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        while (std::chrono::steady_clock::now() < end) {
        }
        return TB_OK;
      },
      [](void *storage) {
        Place &here = **static_cast<Place **>(storage);
        here.destroyed_there = here.thread == std::this_thread::get_id();
      }};
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, sizeof(Place *), &storage));
  *static_cast<Place **>(storage) = &place;
  CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
}

TB_CASE(CLO, 17, needs, "closure_commit.5",
        "only a closure that allows it runs on a waiting thread, which its context says") {
  Stream stream(kit);
  const auto waiter = std::this_thread::get_id();
  int on_waiter = 0;
  for (int cycle = 0; cycle < 400; ++cycle) {
    Place allowed, another, forbidden;
    place<TB_CLOSURE_ON_WAITER>(kit, stream, allowed);
    place<TB_CLOSURE_ON_WAITER>(kit, stream, another);
    if (cycle % 40 == 39) place<0>(kit, stream, forbidden);
    stream.synchronize();
    for (const Place &one : {allowed, another}) {
      CHECK_EQUAL(one.on_waiter, one.thread == waiter);
      CHECK(one.destroyed_there);
      on_waiter += one.on_waiter;
    }
    CHECK(forbidden.thread != waiter);
    CHECK(!forbidden.on_waiter);
  }
  kit.state(on_waiter ? "threads that wait run closures" : "threads that wait run no closures");
}

} // namespace
} // namespace tb::contract::closures_on_waiters_cases
