// Cases about processes and drivers: their ends, their signals. Those about fork are the host's (rule T6).
#include <signal.h>

#include <atomic>
#include <cstdlib>

#include "contract/child.h"

namespace tb::contract::process_lifetime_cases {
namespace {

constexpr uint64_t byte_count = 1 << 16;

void round_trip(Kit &kit) {
  Block block(kit, byte_count);
  const std::vector<uint8_t> sent(byte_count, 0x5C);
  block.write(sent);
  CHECK(block.read() == sent);
}

} // namespace

TB_CHILD(use_driver) {
  round_trip(kit);
  parent.send("worked");
}

TB_CASE(PRC, 02, TB_GROUP_CORE, "T6 mem_alloc.6", "a process started while the driver is open uses the driver too") {
  round_trip(kit);
  kit::Child child(kit, "use_driver");
  CHECK_EQUAL(child.receive(), std::string("worked"));
  child.finish();
  round_trip(kit); // and its end changes nothing here
}

TB_CHILD(exit_with_work) {
  tb_stream *stream = kit.default_stream();
  static void *block = nullptr;
  CHECK_OK(kit.api().mem_alloc(kit.self(), 0, byte_count, 0, &block));
  submit_delay(kit, stream, 200);
  CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block, 1, 1, byte_count));
  parent.send("queued");
  std::exit(0); // with the driver open, work queued and memory alive
}

TB_CASE(PRC, 03, TB_GROUP_ASYNC, "E5 T8", "a process that exits with work queued ends, without a crash") {
  kit::Child child(kit, "exit_with_work");
  CHECK_EQUAL(child.receive(), std::string("queued"));
  child.finish(0, 10);
}

TB_CHILD(interrupted) {
  static std::atomic<bool> seen{false};
  struct sigaction action = {};
  action.sa_handler = [](int) { seen = true; };
  sigaction(SIGINT, &action, nullptr); // without SA_RESTART: system calls of the driver end early
  kit::Stream stream(kit);
  std::atomic<bool> done{false};
  submit(kit, stream, [&] {
    // More than once: ThreadSanitizer keeps a signal that comes just before the wait.
    for (int asked = 0; !seen && asked < 4; ++asked) {
      parent.send("running");
      const double until = seconds_now() + 0.5;
      while (!seen && seconds_now() < until) std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the wait goes on after the signal
    done = true;
  });
  stream.synchronize();
  parent.send("done");
  CHECK(done);
  CHECK(seen);
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  CHECK(now.sa_handler == action.sa_handler); // rule E5: no signal handler of the driver's own
}

TB_CASE(PRC, 05, TB_GROUP_ASYNC, "E5 stream_synchronize.1",
        "a signal during a synchronise neither ends nor breaks it") {
  if (!kit.offers(TB_GROUP_CLOSURE) && !kit.offers(TB_GROUP_HOSTCALL)) throw NotOffered("neither CLOSURE nor HOSTCALL");
  kit::Child child(kit, "interrupted");
  std::string reported;
  while ((reported = child.receive()) == "running") child.signal(SIGINT);
  CHECK_EQUAL(reported, std::string("done"));
  child.finish();
}

TB_CASE(PRC, 06, TB_GROUP_CORE, "close.1", "opening and closing takes less than a second", .warn = true) {
  const double start = seconds_now();
  {
    Opened second(kit.target(), kit.options());
    CHECK(second.self != nullptr);
  }
  CHECK(seconds_now() - start < 1);
}

} // namespace tb::contract::process_lifetime_cases
