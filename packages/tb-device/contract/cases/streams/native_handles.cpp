// NAT: the vendor's own stream handles.
#include "contract/child.h"
#include "contract/support/probe.h"

namespace tb::contract::native_handles_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_NATIVE;

uint64_t native_of(Kit &kit, tb_stream *stream) {
  uint64_t native = 0;
  CHECK_OK(kit.api().stream_native(kit.self(), stream, &native));
  return native;
}

// A wrapper around a native stream.
class Wrapped {
public:
  Wrapped(Kit &kit, uint64_t native, int32_t device = 0) : kit_(kit) {
    CHECK_OK(kit.api().stream_wrap(kit.self(), device, native, &stream_));
  }
  ~Wrapped() { kit_.api().stream_destroy(kit_.self(), stream_); }
  Wrapped(const Wrapped &) = delete;
  Wrapped &operator=(const Wrapped &) = delete;
  operator tb_stream *() const { return stream_; }

private:
  Kit &kit_;
  tb_stream *stream_ = nullptr;
};

TB_CASE(NAT, 01, needs, "stream_native.1", "a stream's native handle is the same each time, and its own") {
  Stream first(kit), second(kit);
  const uint64_t native = native_of(kit, first);
  Block word(kit, 4);
  set_word(kit, first, word.data(), 1);
  first.synchronize();
  CHECK_EQUAL(native_of(kit, first), native);
  CHECK(native_of(kit, second) != native);
  CHECK(native_of(kit, kit.default_stream()) != native);
}

TB_CASE(NAT, 02, needs, "stream_wrap.1", "work on the wrapper and on the wrapped is in one order") {
  constexpr uint32_t round_count = 100;
  Block word(kit, 4), log(kit, 8 * round_count);
  Stream stream(kit);
  Wrapped wrapper(kit, native_of(kit, stream));
  {
    Gate gate(kit, stream);
    for (uint32_t i = 0; i < round_count; ++i) {
      set_word(kit, stream, word.data(), 2 * i);
      copy_word(kit, wrapper, log.data() + 8 * i, word.data());
      set_word(kit, wrapper, word.data(), 2 * i + 1);
      copy_word(kit, stream, log.data() + 8 * i + 4, word.data());
    }
    check_held(kit, wrapper);
    OpensLater opener(gate, soon);
    kit.synchronize(wrapper);
    CHECK(opener.opened());
  }
  const auto got = read_words(kit, log.data(), 2 * round_count);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i);
}

TB_CASE(NAT, 03, needs, "stream_wrap.2", "destroying the wrapper leaves the native stream alone") {
  Block word(kit, 8);
  Stream stream(kit);
  const uint64_t native = native_of(kit, stream);
  Gate gate(kit, stream);
  for (int round = 0; round < 3; ++round) {
    Wrapped wrapper(kit, native);
    set_word(kit, wrapper, word.data(), 31);
  }
  set_word(kit, stream, word.data() + 4, 32);
  gate.open();
  stream.synchronize();
  CHECK(read_words(kit, word.data(), 2) == std::vector<uint32_t>({31, 32}));
  CHECK_EQUAL(native_of(kit, stream), native);
  Wrapped again(kit, native);
  set_word(kit, again, word.data(), 33);
  kit.synchronize(again);
  CHECK_EQUAL(read_word(kit, word.data()), 33u);
}

TB_CASE(NAT, 04, needs, "stream_wrap.1 stream_wait_event.1", "events recorded on a wrapper order other streams") {
  auto [api, self] = driver_of(kit);
  Block from(kit, 4), to(kit, 4);
  from.fill(0);
  to.fill(0);
  Stream stream(kit), waits(kit);
  Wrapped wrapper(kit, native_of(kit, stream));
  Event event(kit);
  Gate gate(kit, stream);
  set_word(kit, stream, from.data(), 4);
  CHECK_OK(api.event_record(self, event, wrapper));
  CHECK_OK(api.stream_wait_event(self, waits, event));
  copy_word(kit, waits, to.data(), from.data());
  check_held(kit, waits);
  gate.open();
  waits.synchronize();
  CHECK_EQUAL(read_word(kit, to.data()), 4u);
}

TB_CHILD(nat_unknown) {
  auto [api, self] = driver_of(kit);
  expect_a_crash();
  int unrelated = 0;
  tb_stream *stream = nullptr;
  const tb_status status = api.stream_wrap(self, 0, reinterpret_cast<uintptr_t>(&unrelated), &stream);
  if (status == TB_OK) {
    parent.send("taken");
    CHECK_OK(api.stream_destroy(self, stream));
    return;
  }
  CHECK(stream == nullptr);
  CHECK_STATUS(status, status == TB_NOT_FOUND ? TB_NOT_FOUND : TB_INVALID_ARGUMENT);
  parent.send("refused");
}

TB_CASE(NAT, 05, needs, "stream_wrap.3", "no native stream: refused, where the vendor's library can tell") {
  Child child(kit, "nat_unknown");
  std::string then = "not noticed, and ends the process";
  try {
    then = child.receive();
  } catch (const Failed &failed) {
    if (std::string(failed.what()).starts_with("in the other process")) throw; // a wrong status
  }
  if (then != "refused") throw NotOffered("the vendor's library cannot tell: the handle is " + then);
  child.finish();
  CHECK_EQUAL(then, std::string("refused"));
}

TB_CASE(NAT, 06, needs, "stream_query.3", "a stream whose handle was given out is done when its work was waited for") {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  Stream stream(kit);
  native_of(kit, stream);
  for (uint32_t round = 0; round < 100; ++round) {
    set_word(kit, stream, word.data(), round);
    stream.synchronize();
    for (int again = 0; again < 3; ++again) CHECK_OK(api.stream_query(self, stream));
  }
  set_word(kit, stream, word.data(), 100);
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK_OK(api.stream_query(self, stream));
}

} // namespace
} // namespace tb::contract::native_handles_cases
