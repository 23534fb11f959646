// EVT: the point for which an event stands, waits for it, and its end.
#include "contract/support/probe.h"

namespace tb::contract::events_cases {
namespace {

TB_CASE(EVT, 01, TB_GROUP_ASYNC, "event_create.1", "a fresh event is complete") {
  auto [api, self] = driver_of(kit);
  for (const uint64_t flags : {0, int(TB_EVENT_TIMING), int(TB_EVENT_BLOCKING)}) {
    if (flags == TB_EVENT_TIMING && !kit.offers(TB_GROUP_TIMING)) continue;
    Event event(kit, flags);
    CHECK_OK(api.event_query(self, event));
    CHECK_OK(api.event_synchronize(self, event));
  }
}

TB_CASE(EVT, 02, TB_GROUP_ASYNC, "event_record.1 event_query.1",
        "an event is not ready before its point, ready after") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream stream(kit);
  Event event(kit);
  Gate gate(kit, stream);
  set_word(kit, stream, word.data(), 2);
  CHECK_OK(api.event_record(self, event, stream));
  check_held(kit, stream);
  CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
  gate.open();
  CHECK_EQUAL(poll([&, api = &api, self = self] { return api->event_query(self, event); }), tb_status(TB_OK));
  CHECK_EQUAL(read_word(kit, word.data()), 2u);
}

TB_CASE(EVT, 03, TB_GROUP_ASYNC, "event_record.1", "work enqueued after the record does not delay the event") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Block word(kit, 4);
  Event before(kit), after(kit);
  set_word(kit, stream, word.data(), 3);
  CHECK_OK(api.event_record(self, before, stream));
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.event_record(self, after, stream));
  CHECK_OK(api.event_synchronize(self, before));
  CHECK(!rescue.opened());
  CHECK_EQUAL(api.event_query(self, after), tb_status(TB_NOT_READY));
  CHECK_EQUAL(read_word(kit, word.data()), 3u);
}

TB_CASE(EVT, 04, TB_GROUP_ASYNC, "event_record.2",
        "recording again moves the point, to a later one and to a done one") {
  auto [api, self] = driver_of(kit);
  Stream idle(kit), held(kit);
  Event event(kit);
  CHECK_OK(api.event_record(self, event, idle));
  CHECK_OK(api.event_synchronize(self, event));
  Gate gate(kit, held);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.event_record(self, event, held));
  CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
  CHECK_OK(api.event_record(self, event, idle));
  CHECK_OK(api.event_synchronize(self, event));
  CHECK(!rescue.opened());
}

TB_CASE(EVT, 05, TB_GROUP_ASYNC, "event_record.3", "a wait already made is not let go by a second record elsewhere") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4), to(kit, 4);
  from.fill(0);
  to.fill(0);
  Stream first(kit), waits(kit), idle(kit);
  Event event(kit);
  Gate gate(kit, first);
  set_word(kit, first, from.data(), 5);
  CHECK_OK(api.event_record(self, event, first));
  CHECK_OK(api.stream_wait_event(self, waits, event));
  copy_word(kit, waits, to.data(), from.data());
  CHECK_OK(api.event_record(self, event, idle));
  CHECK_OK(api.event_synchronize(self, event));
  check_held(kit, waits);
  gate.open();
  waits.synchronize();
  CHECK_EQUAL(read_word(kit, to.data()), 5u);
}

TB_CASE(EVT, 06, TB_GROUP_ASYNC, "event_record.3 stream_wait_event.1",
        "a wait already made is not held by a later record") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream first(kit), waits(kit), held(kit);
  Event event(kit);
  set_word(kit, first, word.data(), 0);
  CHECK_OK(api.event_record(self, event, first));
  CHECK_OK(api.stream_wait_event(self, waits, event));
  Gate gate(kit, held);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.event_record(self, event, held));
  set_word(kit, waits, word.data(), 6);
  waits.synchronize();
  CHECK(!rescue.opened());
  CHECK_EQUAL(read_word(kit, word.data()), 6u);
}

TB_CASE(EVT, 07, TB_GROUP_ASYNC, "event_destroy.1", "a wait holds though its event is destroyed while pending") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4), to(kit, 4);
  from.fill(0);
  to.fill(0);
  Stream first(kit), second(kit);
  Gate gate(kit, first);
  OpensLater rescue(gate, too_late);
  set_word(kit, first, from.data(), 7);
  {
    Event event(kit);
    CHECK_OK(api.event_record(self, event, first));
    CHECK_OK(api.stream_wait_event(self, second, event));
  }
  CHECK(!rescue.opened());                   // destroying did not wait either
  std::vector<std::unique_ptr<Event>> fresh; // a driver that reuses the event's memory shows it
  for (int i = 0; i < 32; ++i) fresh.push_back(std::make_unique<Event>(kit));
  copy_word(kit, second, to.data(), from.data());
  check_held(kit, second);
  gate.open();
  second.synchronize();
  CHECK_EQUAL(read_word(kit, to.data()), 7u);
}

TB_CASE(EVT, 08, TB_GROUP_ASYNC, "event_synchronize.1 T3",
        "eight threads wait for one event, and all return after it") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit);
  Gate gate(kit, stream);
  CHECK_OK(api.event_record(self, event, stream));
  std::atomic<bool> opened{false};
  std::atomic<int> waiting{0}, returned{0}, early{0}, failed{0};
  Threads threads;
  for (int i = 0; i < 8; ++i)
    threads.start([&, api = &api, self = self] {
      ++waiting;
      if (api->event_synchronize(self, event) != TB_OK) ++failed;
      if (!opened) ++early;
      ++returned;
    });
  wait_until([&] { return waiting == 8; }, "eight threads to wait");
  check_held(kit, stream);
  CHECK_EQUAL(returned.load(), 0);
  opened = true;
  gate.open();
  threads.join();
  CHECK_EQUAL(early.load(), 0);
  CHECK_EQUAL(failed.load(), 0);
  CHECK_EQUAL(returned.load(), 8);
}

TB_CASE(EVT, 09, TB_GROUP_ASYNC, "event_record.4", "an event recorded on another device works or is refused") {
  auto [api, self] = driver_of(kit);
  kit.need_devices(2);
  Stream stream(kit, 1);
  Event event(kit, 0, 0);
  Gate gate(kit, stream);
  const tb_status status = api.event_record(self, event, stream);
  if (status == TB_OK) {
    CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
    gate.open();
    CHECK_OK(api.event_synchronize(self, event));
    kit.state("an event may be recorded on another device's stream");
  } else {
    CHECK_STATUS(status, TB_INVALID_ARGUMENT);
    CHECK_OK(api.event_query(self, event)); // as it was
    kit.state("an event of one device recorded on another's stream is refused");
  }
}

TB_CASE(EVT, 10, TB_GROUP_ASYNC, "event_query.2", "query never blocks") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.event_record(self, event, stream));
  for (int i = 0; i < 1000; ++i) CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
  CHECK(!rescue.opened());
}

TB_CASE(EVT, 11, TB_GROUP_ASYNC, "event_destroy.1 event_create.1",
        "twenty thousand events leave the process as it was") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  uint64_t before = 0;
  const int descriptors = open_descriptors();
  for (int i = 0; i < 20000; ++i) {
    if (i == 2000) { // pools have grown
      stream.synchronize();
      before = resident_bytes();
    }
    tb_event *event = nullptr;
    CHECK_OK(api.event_create(self, 0, 0, &event));
    CHECK_OK(api.event_record(self, event, stream));
    CHECK_OK(api.event_destroy(self, event));
  }
  stream.synchronize();
  const uint64_t after = resident_bytes();
  CHECK(after < before + (8u << 20)); // 18,000 events of 500 bytes would pass this
  CHECK_EQUAL(open_descriptors(), descriptors);
}

TB_CASE(EVT, 12, TB_GROUP_ASYNC, "event_synchronize.2", "waiting for a BLOCKING event sleeps") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit, TB_EVENT_BLOCKING);
  Gate gate(kit, stream);
  CHECK_OK(api.event_record(self, event, stream));
  const double processor = cpu_seconds();
  OpensLater opener(gate, 0.3);
  CHECK_OK(api.event_synchronize(self, event));
  CHECK(opener.opened());
  CHECK(cpu_seconds() - processor < 0.01); // a thread that spins has more, also on a busy machine
}

TB_CASE(EVT, 13, TB_GROUP_ASYNC, "T1 event_query.1", "a thread that never called before may query, wait and record") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit), second(kit);
  Gate gate(kit, stream);
  CHECK_OK(api.event_record(self, event, stream));
  tb_status query = TB_UNKNOWN, record = TB_UNKNOWN, after = TB_UNKNOWN, synchronize = TB_UNKNOWN;
  Threads first;
  first.start([&, api = &api, self = self] { query = api->event_query(self, event); });
  first.join();
  Threads later;
  later.start([&, api = &api, self = self] { record = api->event_record(self, second, stream); });
  later.join();
  gate.open();
  Threads last;
  last.start([&, api = &api, self = self] { synchronize = api->event_synchronize(self, second); });
  last.join();
  after = api.event_query(self, event);
  CHECK_EQUAL(query, tb_status(TB_NOT_READY));
  CHECK_OK(record);
  CHECK_OK(synchronize);
  CHECK_OK(after);
}

TB_CASE(EVT, 14, TB_GROUP_ASYNC, "stream_wait_event.1", "one event holds two streams, and lets both go") {
  auto [api, self] = driver_of(kit);
  Block words(kit, 12);
  words.fill(0);
  Stream first(kit), left(kit), right(kit);
  Event event(kit);
  Gate gate(kit, first);
  set_word(kit, first, words.data(), 14);
  CHECK_OK(api.event_record(self, event, first));
  CHECK_OK(api.stream_wait_event(self, left, event));
  CHECK_OK(api.stream_wait_event(self, right, event));
  copy_word(kit, left, words.data() + 4, words.data());
  copy_word(kit, right, words.data() + 8, words.data());
  check_held(kit, left);
  check_held(kit, right);
  gate.open();
  left.synchronize();
  right.synchronize();
  CHECK(read_words(kit, words.data(), 3) == std::vector<uint32_t>(3, 14));
}

TB_CASE(EVT, 15, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "event_query.1 E4",
        "an event tells the failure of work before it, once") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event before(kit), after(kit);
  CHECK_OK(api.event_record(self, before, stream));
  submit_failure(kit, stream, TB_DATA_LOSS, "fifteen is lost");
  CHECK_OK(api.event_record(self, after, stream));
  CHECK_OK(api.event_synchronize(self, before)); // the failure comes later
  CHECK_EQUAL(poll([&, api = &api, self = self] { return api->event_query(self, after); }), tb_status(TB_DATA_LOSS));
  CHECK(kit.take_error().text.find("fifteen is lost") != std::string::npos);
  CHECK_OK(api.event_query(self, after));
  CHECK_OK(api.stream_synchronize(self, stream));
}

TB_CASE(EVT, 16, TB_GROUP_ASYNC, "event_create.1 event_destroy.1", "five hundred events are pending at once") {
  auto [api, self] = driver_of(kit);
  std::vector<std::unique_ptr<Event>> events;
  Stream stream(kit);
  Block word(kit, 4);
  {
    Gate gate(kit, stream);
    for (uint32_t i = 0; i < 500; ++i) {
      set_word(kit, stream, word.data(), i);
      events.push_back(std::make_unique<Event>(kit));
      CHECK_OK(api.event_record(self, *events.back(), stream));
    }
    for (const auto &event : events) CHECK_EQUAL(api.event_query(self, *event), tb_status(TB_NOT_READY));
  }
  for (const auto &event : events) CHECK_OK(api.event_query(self, *event));
}

TB_CASE(EVT, 17, TB_GROUP_ASYNC, "event_create.2 E1",
        "an event to be shared is made where the driver shares events, else refused") {
  auto [api, self] = driver_of(kit);
  const Event timed(kit, TB_EVENT_TIMING);
  CHECK_OK(api.event_query(self, timed));
  if (kit.offers(TB_GROUP_IPC)) {
    const Event shared(kit, TB_EVENT_IPC);
    CHECK_OK(api.event_query(self, shared));
    return;
  }
  tb_event *event = nullptr;
  const tb_status status = api.event_create(self, 0, TB_EVENT_IPC, &event);
  CHECK_STATUS(status, status == TB_UNSUPPORTED ? TB_UNSUPPORTED : TB_INVALID_ARGUMENT);
  CHECK(event == nullptr);
}

} // namespace
} // namespace tb::contract::events_cases
