// STR: the default stream, creating and destroying, order within a stream, queries and synchronising.
#include <set>

#include "contract/support/probe.h"

namespace tb::contract::streams_cases {
namespace {

TB_CASE(STR, 01, TB_GROUP_ASYNC, "stream_default.1 T1", "the default stream is the same handle each time") {
  auto [api, self] = driver_of(kit);
  std::set<tb_stream *> seen;
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    tb_stream *first = nullptr, *again = nullptr, *elsewhere = nullptr;
    CHECK_OK(api.stream_default(self, device, &first));
    CHECK_OK(api.stream_default(self, device, &again));
    Threads threads;
    threads.start([&, device, api = &api, self = self] {
      if (api->stream_default(self, device, &elsewhere) != TB_OK) elsewhere = nullptr;
    });
    threads.join();
    CHECK(first != nullptr);
    CHECK_EQUAL(first, again);
    CHECK_EQUAL(first, elsewhere);
    CHECK(seen.insert(first).second); // each device has its own
  }
}

TB_CASE(STR, 02, TB_GROUP_ASYNC, "stream_create.4", "a thousand streams live at once, and each works", .seconds = 60) {
  auto [api, self] = driver_of(kit);
  constexpr uint32_t element_count = 1000;
  Block block(kit, 4 * element_count);
  block.fill(0);
  std::vector<std::unique_ptr<Stream>> streams;
  for (uint32_t i = 0; i < element_count; ++i) streams.push_back(std::make_unique<Stream>(kit));
  std::set<tb_stream *> handles;
  for (const auto &stream : streams) handles.insert(*stream);
  CHECK_EQUAL(handles.size(), size_t(element_count));
  for (uint32_t i = 0; i < element_count; ++i) set_word(kit, *streams[i], block.data() + 4 * i, i + 1);
  CHECK_OK(api.device_synchronize(self, 0));
  const std::vector<uint32_t> got = read_words(kit, block.data(), element_count);
  for (uint32_t i = 0; i < element_count; ++i) CHECK_EQUAL(got[i], i + 1);
}

TB_CASE(STR, 03, TB_GROUP_ASYNC, "stream_create.1", "every priority is taken: out of range is clamped") {
  const tb_device_info &info = kit.info();
  Block word(kit, 4);
  uint32_t value = 0;
  for (const int32_t priority : {info.priority_greatest, int32_t(0), info.priority_least, info.priority_greatest - 1,
                                 info.priority_least + 1, INT32_MIN, INT32_MAX}) {
    Stream stream(kit, 0, priority);
    set_word(kit, stream, word.data(), ++value);
    stream.synchronize();
    CHECK_EQUAL(read_word(kit, word.data()), value);
  }
}

TB_CASE(STR, 04, TB_GROUP_ASYNC, "stream_create.2", "work of one stream runs in the order of the calls") {
  constexpr uint32_t round_count = 500;
  Block word(kit, 4), log(kit, 4 * round_count);
  log.fill(0xee);
  Stream stream(kit);
  for (uint32_t i = 0; i < round_count; ++i) {
    set_word(kit, stream, word.data(), i);
    copy_word(kit, stream, log.data() + 4 * i, word.data());
  }
  stream.synchronize();
  const std::vector<uint32_t> got = read_words(kit, log.data(), round_count);
  for (uint32_t i = 0; i < round_count; ++i) CHECK_EQUAL(got[i], i);
}

TB_CASE(STR, 05, TB_GROUP_ASYNC, "stream_create.3 T2", "a stream runs while another is held") {
  Block word(kit, 4);
  word.fill(0);
  Stream held(kit), free(kit);
  Gate gate(kit, held);
  OpensLater rescue(gate, too_late);
  set_word(kit, free, word.data(), 7);
  free.synchronize();
  CHECK(!rescue.opened());
  CHECK_EQUAL(read_word(kit, word.data()), 7u);
}

TB_CASE(STR, 06, TB_GROUP_ASYNC, "stream_query.2", "query never blocks") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  for (int i = 0; i < 1000; ++i) CHECK_EQUAL(api.stream_query(self, stream), tb_status(TB_NOT_READY));
  CHECK(!rescue.opened());
}

TB_CASE(STR, 07, TB_GROUP_ASYNC, "stream_query.1", "query says not ready while work is queued, OK when it is done") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream stream(kit);
  CHECK_OK(api.stream_query(self, stream)); // nothing was ever queued
  {
    Gate gate(kit, stream);
    set_word(kit, stream, word.data(), 9);
    check_held(kit, stream);
    gate.open();
    CHECK_EQUAL(poll([&, api = &api, self = self] { return api->stream_query(self, stream); }), tb_status(TB_OK));
  }
  CHECK_OK(api.stream_query(self, stream));
  CHECK_EQUAL(read_word(kit, word.data()), 9u); // OK meant done
}

TB_CASE(STR, 08, TB_GROUP_ASYNC, "stream_synchronize.1", "synchronise returns when everything queued is done") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit);
  Gate gate(kit, stream);
  set_word(kit, stream, word.data(), 5);
  OpensLater opener(gate, soon);
  CHECK_OK(api.stream_synchronize(self, stream));
  CHECK(opener.opened());
  CHECK_EQUAL(read_word(kit, word.data()), 5u);
  CHECK_OK(api.stream_query(self, stream));
}

TB_CASE(STR, 09, TB_GROUP_ASYNC, "T5", "functions that enqueue return without waiting for the device") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4096), to(kit, 4096);
  from.fill(3);
  to.fill(0);
  Stream stream(kit), other(kit);
  Event event(kit);
  {
    Gate gate(kit, stream);
    OpensLater rescue(gate, too_late);
    for (int i = 0; i < 100; ++i) {
      CHECK_OK(api.mem_set(self, 0, stream, from.data(), 0x0101u * static_cast<uint32_t>(i), 2, 2048));
      CHECK_OK(api.mem_copy(self, 0, stream, to.data(), from.data(), 4096, TB_COPY_DEVICE_TO_DEVICE));
      CHECK_OK(api.event_record(self, event, stream));
      CHECK_OK(api.stream_wait_event(self, other, event));
    }
    CHECK(!rescue.opened());
    CHECK_EQUAL(api.stream_query(self, stream), tb_status(TB_NOT_READY));
  }
  other.synchronize();
  for (const uint8_t byte : to.read()) CHECK_EQUAL(int(byte), 99);
}

TB_CASE(STR, 10, TB_GROUP_ASYNC, "device_synchronize.1", "device_synchronize waits for streams of other threads") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  word.fill(0);
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Gate> gate;
  Threads threads;
  threads.start([&] {
    stream = std::make_unique<Stream>(kit);
    gate = std::make_unique<Gate>(kit, *stream);
    set_word(kit, *stream, word.data(), 6);
  });
  threads.join();
  OpensLater opener(*gate, soon);
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK(opener.opened());
  CHECK_OK(api.stream_query(self, *stream));
  CHECK_EQUAL(read_word(kit, word.data()), 6u);
}

// Work on a stream that is destroyed while an event of another stream holds it.
struct HeldAndDestroyed {
  HeldAndDestroyed(Kit &kit, Stream &holder, void *word, tb_event *start, tb_event *done) : gate(kit, holder) {
    auto [api, self] = driver_of(kit);
    CHECK_OK(api.event_record(self, start, holder));
    tb_stream *stream = nullptr;
    CHECK_OK(api.stream_create(self, 0, 0, 0, &stream));
    CHECK_OK(api.stream_wait_event(self, stream, start));
    for (uint32_t value = 1; value <= 50; ++value) set_word(kit, stream, word, value);
    CHECK_OK(api.event_record(self, done, stream));
    OpensLater rescue(gate, too_late);
    CHECK_OK(api.stream_destroy(self, stream));
    waited = rescue.opened();
  }
  Gate gate;
  bool waited = false;
};

TB_CASE(STR, 11, TB_GROUP_ASYNC, "stream_destroy.1", "work queued on a destroyed stream still completes") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  word.fill(0);
  Stream holder(kit);
  Event start(kit), done(kit);
  HeldAndDestroyed held(kit, holder, word.data(), start, done);
  held.gate.open();
  CHECK_OK(api.event_synchronize(self, done));
  CHECK_EQUAL(read_word(kit, word.data()), 50u);
}

TB_CASE(STR, 12, TB_GROUP_ASYNC, "stream_destroy.2", "destroying a stream does not wait for its work") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream holder(kit);
  Event start(kit), done(kit);
  HeldAndDestroyed held(kit, holder, word.data(), start, done);
  CHECK(!held.waited);
  CHECK_EQUAL(api.event_query(self, done), tb_status(TB_NOT_READY));
  held.gate.open();
  CHECK_OK(api.event_synchronize(self, done));
}

TB_CASE(STR, 13, TB_GROUP_ASYNC, "stream_default.2", "the default stream cannot be destroyed") {
  auto [api, self] = driver_of(kit);
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    tb_stream *stream = kit.default_stream(device);
    CHECK_STATUS(api.stream_destroy(self, stream), TB_INVALID_ARGUMENT);
    Block word(kit, 4, device); // and still works
    set_word(kit, stream, word.data(), 11, device);
    CHECK_EQUAL(read_word(kit, word.data(), device), 11u);
  }
}

TB_CASE(STR, 14, TB_GROUP_ASYNC, "stream_synchronize.1 stream_query.2", "an idle stream synchronises at once, often") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(api.stream_synchronize(self, stream));
    CHECK_OK(api.stream_query(self, stream));
  }
}

TB_CASE(STR, 15, TB_GROUP_ASYNC, "device_synchronize.1 T4", "synchronising a device leaves the other devices alone") {
  auto [api, self] = driver_of(kit);
  kit.need_devices(2);
  Stream held(kit, 1);
  Gate gate(kit, held);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK(!rescue.opened());
  CHECK_EQUAL(api.stream_query(self, held), tb_status(TB_NOT_READY));
}

TB_CASE(STR, 16, TB_GROUP_ASYNC, "device_synchronize.3 stream_destroy.1",
        "device_synchronize waits for the work of streams that were destroyed") {
  auto [api, self] = driver_of(kit);
  for (int round = 0; round < 5; ++round) {
    Block word(kit, 4);
    word.fill(0);
    tb_stream *stream = nullptr;
    CHECK_OK(api.stream_create(self, 0, 0, 0, &stream));
    submit_delay(kit, stream, 20);
    set_word(kit, stream, word.data(), 16);
    CHECK_OK(api.stream_destroy(self, stream));
    CHECK_OK(api.device_synchronize(self, 0));
    CHECK_EQUAL(read_word(kit, word.data()), 16u);
  }
}

} // namespace
} // namespace tb::contract::streams_cases
