// STR: order across streams and devices, by events.
#include "contract/support/probe.h"

namespace tb::contract::stream_ordering_cases {
namespace {

// `after` runs once `before` has come to where it is now.
void order(Kit &kit, tb_stream *before, tb_stream *after) {
  auto [api, self] = driver_of(kit);
  Event event(kit);
  CHECK_OK(api.event_record(self, event, before));
  CHECK_OK(api.stream_wait_event(self, after, event));
}

TB_CASE(STR, 20, TB_GROUP_ASYNC, "stream_wait_event.1", "a stream waits for the event of another") {
  Block from(kit, 4), to(kit, 4);
  from.fill(0);
  to.fill(0);
  Stream first(kit), second(kit);
  Gate gate(kit, first);
  set_word(kit, first, from.data(), 21);
  order(kit, first, second);
  copy_word(kit, second, to.data(), from.data());
  check_held(kit, second);
  gate.open();
  second.synchronize();
  CHECK_EQUAL(read_word(kit, to.data()), 21u);
}

TB_CASE(STR, 21, TB_GROUP_ASYNC, "stream_wait_event.1", "only work enqueued after the wait is held by it") {
  Block early(kit, 4), late(kit, 4);
  early.fill(0);
  late.fill(0);
  Stream first(kit), second(kit);
  Event passed(kit);
  Gate gate(kit, first);
  OpensLater rescue(gate, too_late);
  set_word(kit, second, early.data(), 1);
  CHECK_OK(kit.api().event_record(kit.self(), passed, second));
  order(kit, first, second);
  set_word(kit, second, late.data(), 1);
  CHECK_OK(kit.api().event_synchronize(kit.self(), passed));
  CHECK(!rescue.opened());
  CHECK_EQUAL(read_word(kit, early.data()), 1u);
  CHECK_EQUAL(read_word(kit, late.data()), 0u);
  gate.open();
  second.synchronize();
  CHECK_EQUAL(read_word(kit, late.data()), 1u);
}

TB_CASE(STR, 22, TB_GROUP_ASYNC, "stream_wait_event.2", "a stream waits for an event of another device") {
  kit.need_devices(2);
  Block word(kit, 4, 1);
  word.fill(0);
  Stream first(kit, 0), second(kit, 1);
  Gate gate(kit, first);
  order(kit, first, second);
  set_word(kit, second, word.data(), 22, 1);
  check_held(kit, second);
  CHECK_EQUAL(read_word(kit, word.data(), 1), 0u);
  gate.open();
  second.synchronize();
  CHECK_EQUAL(read_word(kit, word.data(), 1), 22u);
}

TB_CASE(STR, 23, TB_GROUP_ASYNC, "stream_wait_event.3", "waiting for an event that was never recorded is free") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream stream(kit);
  Event event(kit);
  for (int i = 0; i < 10; ++i) CHECK_OK(api.stream_wait_event(self, stream, event));
  set_word(kit, stream, word.data(), 23);
  CHECK_EQUAL(poll([&, api = &api, self = self] { return api->stream_query(self, stream); }), tb_status(TB_OK));
  CHECK_EQUAL(read_word(kit, word.data()), 23u);
}

TB_CASE(STR, 24, TB_GROUP_ASYNC, "stream_wait_event.4", "streams that did not ask for the event do not wait") {
  Block word(kit, 4);
  Stream first(kit), waits(kit), free(kit);
  Gate gate(kit, first);
  OpensLater rescue(gate, too_late);
  order(kit, first, waits);
  set_word(kit, free, word.data(), 24);
  free.synchronize();
  kit.synchronize(kit.default_stream());
  CHECK(!rescue.opened());
  CHECK_EQUAL(read_word(kit, word.data()), 24u);
  check_held(kit, waits);
  gate.open();
  waits.synchronize();
}

TB_CASE(STR, 25, TB_GROUP_ASYNC, "stream_wait_event.1 stream_create.2", "a chain of a thousand waits keeps its order") {
  constexpr uint32_t length = 1000;
  Block words(kit, 4 * (length + 1));
  words.fill(0);
  Stream streams[3] = {Stream(kit), Stream(kit), Stream(kit)};
  Gate gate(kit, streams[0]);
  set_word(kit, streams[0], words.data(), 25);
  for (uint32_t i = 0; i < length; ++i) {
    Stream &from = streams[i % 3], &to = streams[(i + 1) % 3];
    order(kit, from, to);
    copy_word(kit, to, words.data() + 4 * (i + 1), words.data() + 4 * i);
  }
  gate.open();
  streams[length % 3].synchronize();
  CHECK_EQUAL(read_word(kit, words.data() + 4 * length), 25u);
}

TB_CASE(STR, 26, TB_GROUP_ASYNC, "stream_wait_event.1",
        "a diamond: two branches after one stream, one stream after both") {
  Block words(kit, 16);
  words.fill(0);
  uint8_t *word = words.data();
  Stream top(kit), left(kit), right(kit), bottom(kit);
  Gate gate(kit, top);
  set_word(kit, top, word, 26);
  order(kit, top, left);
  order(kit, top, right);
  copy_word(kit, left, word + 4, word);
  copy_word(kit, right, word + 8, word);
  order(kit, left, bottom);
  order(kit, right, bottom);
  CHECK_OK(kit.api().mem_copy(kit.self(), 0, bottom, word + 8, word + 4, 4, TB_COPY_DEVICE_TO_DEVICE));
  copy_word(kit, bottom, word + 12, word + 8);
  check_held(kit, bottom);
  gate.open();
  bottom.synchronize();
  CHECK(read_words(kit, word, 4) == std::vector<uint32_t>(4, 26));
}

TB_CASE(STR, 27, TB_GROUP_ASYNC, "stream_wait_event.1", "a stream that waits for its own event goes on") {
  Block word(kit, 4);
  Stream stream(kit);
  for (uint32_t i = 0; i < 100; ++i) {
    order(kit, stream, stream);
    set_word(kit, stream, word.data(), i);
  }
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 99u);
}

TB_CASE(STR, 28, TB_GROUP_ASYNC, "stream_synchronize.1 stream_wait_event.1",
        "synchronise also waits for what the work waits for") {
  Stream first(kit), second(kit);
  Gate gate(kit, first);
  order(kit, first, second);
  OpensLater opener(gate, soon);
  second.synchronize();
  CHECK(opener.opened());
}

} // namespace
} // namespace tb::contract::stream_ordering_cases
