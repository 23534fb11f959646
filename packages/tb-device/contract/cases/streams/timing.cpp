// TIM: time between two events.
#include "contract/support/probe.h"

namespace tb::contract::timing_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_TIMING;

int64_t elapsed(Kit &kit, tb_event *start, tb_event *end) {
  int64_t nanoseconds = INT64_MIN;
  CHECK_OK(kit.api().event_elapsed_ns(kit.self(), start, end, &nanoseconds));
  return nanoseconds;
}

TB_CASE(TIM, 01, needs, "event_elapsed_ns.1", "the time between two records is what the work took") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event start(kit, TB_EVENT_TIMING), middle(kit, TB_EVENT_TIMING), end(kit, TB_EVENT_TIMING);
  stream.synchronize();
  const double begun = seconds_now();
  double opened = 0;
  {
    CHECK_OK(api.event_record(self, start, stream));
    CHECK_OK(api.event_synchronize(self, start));
    const double recorded = seconds_now();
    Gate gate(kit, stream);
    CHECK_OK(api.event_record(self, middle, stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    opened = seconds_now() - recorded; // the device cannot have taken less
  }
  CHECK_OK(api.event_record(self, end, stream));
  CHECK_OK(api.event_synchronize(self, end));
  const double all = seconds_now() - begun; // nor more
  const int64_t first = elapsed(kit, start, middle), second = elapsed(kit, middle, end),
                both = elapsed(kit, start, end);
  CHECK(first >= static_cast<int64_t>(opened * 1e9 * 0.99)); // a clock that is 1 % off is still one
  CHECK(both <= static_cast<int64_t>(all * 1e9 * 1.01));
  CHECK(second >= 0);
  CHECK(both >= first);
  const int64_t gap = both - (first + second); // resolutions of 1 us are common
  CHECK(gap >= -3000 && gap <= 3000);
}

TB_CASE(TIM, 02, needs, "event_elapsed_ns.2 E1", "before the work is done the time is not ready, and out untouched") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event start(kit, TB_EVENT_TIMING), end(kit, TB_EVENT_TIMING);
  CHECK_OK(api.event_record(self, start, stream));
  Gate gate(kit, stream);
  CHECK_OK(api.event_record(self, end, stream));
  int64_t out = 1234;
  for (int i = 0; i < 10; ++i) {
    CHECK_EQUAL(api.event_elapsed_ns(self, start, end, &out), tb_status(TB_NOT_READY));
    CHECK_EQUAL(out, int64_t(1234));
    check_held(kit, stream);
  }
  gate.open();
  CHECK_OK(api.event_synchronize(self, end));
  CHECK(elapsed(kit, start, end) > 0);
}

TB_CASE(TIM, 03, needs, "event_elapsed_ns.3", "events without the flag, or never recorded, have no time") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event timed(kit, TB_EVENT_TIMING), plain(kit), never(kit, TB_EVENT_TIMING);
  CHECK_OK(api.event_record(self, timed, stream));
  CHECK_OK(api.event_record(self, plain, stream));
  stream.synchronize();
  int64_t out = 1234;
  CHECK_STATUS(api.event_elapsed_ns(self, timed, plain, &out), TB_FAILED_PRECONDITION);
  CHECK_STATUS(api.event_elapsed_ns(self, plain, timed, &out), TB_FAILED_PRECONDITION);
  CHECK_STATUS(api.event_elapsed_ns(self, timed, never, &out), TB_FAILED_PRECONDITION);
  CHECK_STATUS(api.event_elapsed_ns(self, never, timed, &out), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(out, int64_t(1234));
}

TB_CASE(TIM, 04, needs, "event_elapsed_ns.1 event_record.2", "a second record moves the time with the point") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event start(kit, TB_EVENT_TIMING), end(kit, TB_EVENT_TIMING);
  CHECK_OK(api.event_record(self, start, stream));
  CHECK_OK(api.event_record(self, end, stream));
  stream.synchronize();
  CHECK(elapsed(kit, start, end) >= 0);
  submit_delay(kit, stream, 10);
  CHECK_OK(api.event_record(self, end, stream));
  CHECK_OK(api.event_synchronize(self, end));
  CHECK(elapsed(kit, start, end) > 5'000'000); // the delay is measured roughly
  CHECK_OK(api.event_record(self, start, stream));
  CHECK_OK(api.event_synchronize(self, start));
  CHECK(elapsed(kit, end, start) >= 0); // it is the later one now
}

TB_CASE(TIM, 05, needs, "event_elapsed_ns.1", "times of a hundred records in a row never go back") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Block word(kit, 4);
  std::vector<std::unique_ptr<Event>> events;
  for (uint32_t i = 0; i < 100; ++i) {
    events.push_back(std::make_unique<Event>(kit, uint64_t(TB_EVENT_TIMING)));
    CHECK_OK(api.event_record(self, *events.back(), stream));
    set_word(kit, stream, word.data(), i);
  }
  stream.synchronize();
  for (size_t i = 1; i < events.size(); ++i) CHECK(elapsed(kit, *events[i - 1], *events[i]) >= 0);
}

} // namespace
} // namespace tb::contract::timing_cases
