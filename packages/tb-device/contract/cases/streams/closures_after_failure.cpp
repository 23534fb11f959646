// CLO: what a failing closure leaves out on other streams and behind a report, and what runs all the same.
#include "contract/support/probe.h"

namespace tb::contract::closures_after_failure_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_CLOSURE;

// Of one closure.
struct Seen {
  tb_status fails = TB_OK;
  std::atomic<int> runs{0}, destroys{0};
  bool was_left_out() const { return runs == 0 && destroys == 1; }
  bool has_run() const { return runs == 1 && destroys == 1; }
};

template <uint32_t flags = 0> void submit(Kit &kit, tb_stream *stream, Seen &seen) {
  static constexpr tb_closure closure = {sizeof(tb_closure), flags, "contract_seen",
                                         [](void *storage, const tb_closure_context *context) -> tb_status {
                                           Seen &seen = **static_cast<Seen **>(storage);
                                           ++seen.runs;
                                           std::snprintf(context->error_text, context->error_capacity, "it breaks");
                                           return seen.fails;
                                         },
                                         [](void *storage) { ++(*static_cast<Seen **>(storage))->destroys; }};
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, sizeof(Seen *), &storage));
  *static_cast<Seen **>(storage) = &seen;
  CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
}

TB_CASE(CLO, 18, needs, "closure_commit.6 stream_wait_event.1",
        "a failing run leaves out the work of streams that wait for it, whichever stream reports it") {
  auto [api, self] = driver_of(kit);
  for (const bool source_reports : {false, true}) {
    Stream source(kit), waiter(kit), last(kit), apart(kit);
    Event event(kit), next(kit);
    Seen fails, behind, far_behind, beside, afterwards[3];
    fails.fails = TB_ABORTED;
    {
      Gate gate(kit, source);
      submit(kit, source, fails);
      CHECK_OK(api.event_record(self, event, source));
      CHECK_OK(api.stream_wait_event(self, waiter, event));
      submit(kit, waiter, behind);
      CHECK_OK(api.event_record(self, next, waiter));
      CHECK_OK(api.stream_wait_event(self, last, next));
      submit(kit, last, far_behind);
      submit(kit, apart, beside);
      gate.open();
      CHECK_STATUS(api.stream_synchronize(self, source_reports ? source : last), TB_ABORTED);
    }
    for (size_t i = 0; i < 3; ++i) submit(kit, i == 0 ? source : i == 1 ? waiter : last, afterwards[i]);
    for (tb_stream *stream : {static_cast<tb_stream *>(source), static_cast<tb_stream *>(waiter),
                              static_cast<tb_stream *>(last), static_cast<tb_stream *>(apart)})
      CHECK_OK(api.stream_synchronize(self, stream));
    CHECK(behind.was_left_out());
    CHECK(far_behind.was_left_out());
    CHECK(beside.has_run());
    for (const Seen &one : afterwards) CHECK(one.has_run());
  }
}

TB_CASE(CLO, 19, needs, "closure_commit.6",
        "work that was queued before the report is left out, also where the report comes before its turn") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit), other(kit);
  Event event(kit), opened(kit);
  Seen fails, before, after;
  fails.fails = TB_ABORTED;
  Gate gate(kit, other);
  CHECK_OK(api.event_record(self, opened, other));
  submit(kit, stream, fails);
  CHECK_OK(api.event_record(self, event, stream));
  CHECK_OK(api.stream_wait_event(self, stream, opened));
  submit(kit, stream, before);
  CHECK_STATUS(api.event_synchronize(self, event), TB_ABORTED);
  submit(kit, stream, after);
  gate.open();
  stream.synchronize();
  CHECK(before.was_left_out());
  CHECK(after.has_run());
}

TB_CASE(CLO, 20, needs, "closure_commit.7", "a closure with TB_CLOSURE_AFTER_FAILURE runs behind a failing run") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit), waiter(kit);
  Event event(kit);
  Seen fails, allowed, allowed_there, forbidden;
  fails.fails = TB_ABORTED;
  submit(kit, stream, fails);
  submit<TB_CLOSURE_AFTER_FAILURE>(kit, stream, allowed);
  submit(kit, stream, forbidden);
  CHECK_OK(api.event_record(self, event, stream));
  CHECK_OK(api.stream_wait_event(self, waiter, event));
  submit<TB_CLOSURE_AFTER_FAILURE>(kit, waiter, allowed_there);
  CHECK_STATUS(api.stream_synchronize(self, waiter), TB_ABORTED);
  CHECK(allowed.has_run());
  CHECK(allowed_there.has_run());
  CHECK(forbidden.was_left_out());
}

} // namespace
} // namespace tb::contract::closures_after_failure_cases
