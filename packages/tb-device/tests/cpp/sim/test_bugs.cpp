// Programs with one planted bug each: the sim driver finds every one within 200 seeds, replaying the
// schedule finds it again, and the correct program is clean for all 200.
#include <cstdio>
#include <functional>

#include "tests/cpp/check.h"
#include "tests/cpp/sim/opened_sim.h"

using test::OpenedSim;
using test::Options;

namespace {

constexpr uint64_t seeds = 200;
constexpr size_t block_bytes = 256;

// Reads memory that the device may still be writing; that race is the bug that the test plants.
__attribute__((no_sanitize("thread"))) bool holds(const volatile uint8_t *bytes, uint8_t value) {
  for (size_t place = 0; place < block_bytes; ++place)
    if (bytes[place] != value) return false;
  return true;
}

// A buffer is made on one stream and used on another. run() gives true if the result is right and the driver reports
// no problem. Each field that is false plants a bug.
struct Program {
  bool waits = true;        // the reader's stream waits for the writer's event
  bool records_last = true; // the event is recorded after the work, not before it
  bool keeps_memory = true; // the buffer is freed after its reader, as with record_stream
  bool synchronises = true; // the host waits before it reads

  bool run(OpenedSim &driver) const {
    const auto &api = driver.api;
    tb_driver *self = driver.self;
    tb_stream *writer = driver.create_stream(), *reader = driver.create_stream();
    tb_event *written = driver.create_event(), *used = driver.create_event();
    void *buffer = nullptr, *result = driver.allocate(block_bytes);
    alignas(64) uint8_t host[block_bytes] = {};
    driver.ok(api.mem_set(self, 0, writer, result, 1, 1, block_bytes));
    driver.ok(api.mem_alloc_async(self, writer, block_bytes, 0, &buffer));
    if (!records_last) driver.ok(api.event_record(self, written, writer));
    driver.ok(api.mem_set(self, 0, writer, buffer, 42, 1, block_bytes));
    if (records_last) driver.ok(api.event_record(self, written, writer));
    if (waits) driver.ok(api.stream_wait_event(self, reader, written));
    driver.ok(api.mem_copy(self, 0, reader, result, buffer, block_bytes, TB_COPY_DEVICE_TO_DEVICE));
    driver.ok(api.event_record(self, used, reader));
    if (keeps_memory) driver.ok(api.stream_wait_event(self, writer, used));
    driver.ok(api.mem_free_async(self, writer, buffer));
    driver.ok(api.mem_copy(self, 0, reader, host, result, block_bytes, TB_COPY_DEVICE_TO_HOST));
    bool right = true;
    if (synchronises) right = api.stream_synchronize(self, reader) == TB_OK;
    right = holds(host, 42) && right;
    right = api.device_synchronize(self, 0) == TB_OK && right;
    driver.ok(api.mem_free(self, 0, result));
    for (tb_event *event : {written, used}) driver.ok(api.event_destroy(self, event));
    for (tb_stream *stream : {writer, reader}) driver.ok(api.stream_destroy(self, stream));
    return right && driver.problems().empty();
  }
};

// The driver runs everything queued after `idle` ms without a call; 60 s are enough for a busy machine.
Options patient(uint64_t seed) { return {{"seed", std::to_string(seed)}, {"idle", "60000"}}; }

void finds(const char *bug, const Program &program) {
  uint64_t found = 0, first = seeds;
  std::string first_schedule;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    OpenedSim driver(patient(seed));
    if (program.run(driver)) continue;
    ++found;
    if (first < seeds) continue;
    first = seed;
    first_schedule = driver.schedule();
  }
  std::printf("%s: first found at seed=%llu schedule=%s; %llu of %llu seeds find it\n", bug,
              static_cast<unsigned long long>(first), first_schedule.c_str(), static_cast<unsigned long long>(found),
              static_cast<unsigned long long>(seeds));
  CHECK(first < seeds);
  for (int turn = 0; turn < 3; ++turn) {
    Options other = patient(static_cast<uint64_t>(1000 + turn));
    other["schedule"] = first_schedule;
    OpenedSim driver(other);
    CHECK(!program.run(driver));
    CHECK(driver.schedule() == first_schedule);
  }
}

} // namespace

CASE(the_correct_program_is_clean_for_all_seeds) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    OpenedSim driver(patient(seed));
    CHECK(Program().run(driver));
  }
}

CASE(a_removed_wait_is_found) {
  Program program;
  program.waits = false;
  finds("removed stream_wait_event", program);
}

CASE(an_event_recorded_before_the_work_is_found) {
  Program program;
  program.records_last = false;
  finds("event recorded before the work", program);
}

CASE(a_removed_record_stream_is_found) {
  Program program;
  program.keeps_memory = false;
  finds("removed record_stream", program);
}

CASE(a_host_read_without_synchronise_is_found) {
  Program program;
  program.synchronises = false;
  finds("host read without synchronise", program);
}
