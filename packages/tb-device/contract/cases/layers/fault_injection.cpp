// Cases about faults: a small client of the table, called through the layer fault, survives each call's
// failure, and the driver is afterwards as it was.
#include <atomic>

#include "contract/support/layered.h"
#include "layers/fault/fault.h"
#include "layers/leak/leak.h"

namespace tb::contract::fault_injection_cases {
namespace {

using layers::Fault;
using layers::Leak;

// Uses what every device has, and gives everything back whatever fails.
class Client {
public:
  Client(Layered &layered, bool async) : api_(layered.api), self_(layered.self), async_(async) {}
  Client(const Client &) = delete;

  tb_status run() {
    tb_status status = work();
    const auto also = [&](tb_status one) { status = status ? status : one; };
    // Queued work must not outlive the memory, also when something failed.
    if (stream_) also(api_.stream_synchronize(self_, stream_));
    if (event_) also(api_.event_destroy(self_, event_));
    if (stream_) also(api_.stream_destroy(self_, stream_));
    for (void *block : blocks_) also(api_.mem_free(self_, 0, block)); // NULL where the allocation failed
    return status;
  }

private:
  tb_status work() {
    for (void *&block : blocks_)
      if (const tb_status status = api_.mem_alloc(self_, 0, sizeof host_, 0, &block)) return status;
    if (async_) {
      if (const tb_status status = api_.stream_create(self_, 0, 0, 0, &stream_)) return status;
      if (const tb_status status = api_.event_create(self_, 0, 0, &event_)) return status;
    }
    if (const tb_status status = api_.mem_set(self_, 0, stream_, blocks_[0], 1, 1, sizeof host_)) return status;
    if (const tb_status status =
            api_.mem_copy(self_, 0, stream_, blocks_[1], blocks_[0], sizeof host_, TB_COPY_DEVICE_TO_DEVICE))
      return status;
    if (!async_) return TB_OK;
    if (const tb_status status = api_.event_record(self_, event_, stream_)) return status;
    if (const tb_status status = api_.stream_wait_event(self_, stream_, event_)) return status;
    if (const tb_status status =
            api_.mem_copy(self_, 0, stream_, host_, blocks_[1], sizeof host_, TB_COPY_DEVICE_TO_HOST))
      return status;
    return api_.event_synchronize(self_, event_);
  }

  tb_driver_api &api_;
  tb_driver *self_;
  bool async_;
  char host_[4096];
  void *blocks_[2] = {};
  tb_stream *stream_ = nullptr;
  tb_event *event_ = nullptr;
};

tb_status run_client(Kit &kit, Layered &layered) { return Client(layered, kit.has_async()).run(); }

// Everything is as before the fault: nothing alive, the client works.
void check_unharmed(Kit &kit, Layered &layered) {
  layered.layer<Fault>().disarm();
  CHECK(layered.layer<Leak>().live().empty());
  CHECK_OK(run_client(kit, layered));
  CHECK(layered.layer<Leak>().live().empty());
}

// How many points there were.
int sweep(Kit &kit, Layered &layered, tb_status status, const std::string &more) {
  for (int nth = 0;; ++nth) {
    layered.layer<Fault>().arm("nth=" + std::to_string(nth) + ",status=" + std::to_string(status) + more);
    const tb_status got = run_client(kit, layered);
    const bool fired = layered.layer<Fault>().fired() > 0;
    CHECK_EQUAL(got, fired ? status : TB_OK);
    check_unharmed(kit, layered);
    if (!fired) return nth;
  }
}

} // namespace

TB_CASE(FLT, 01, TB_GROUP_CORE, "E2 E8 mem_free.2", "a client survives the failure of each call, one at a time") {
  Layered layered(kit, "fault,leak");
  CHECK(sweep(kit, layered, TB_INTERNAL, "") >= 6);
}

TB_CASE(FLT, 02, TB_GROUP_CORE, "E8 mem_free.2", "a client survives the failure of each call and all after it") {
  Layered layered(kit, "fault,leak");
  CHECK(sweep(kit, layered, TB_UNAVAILABLE, ",persistent=1") >= 6);
}

TB_CASE(FLT, 03, TB_GROUP_CORE, "E6 E8", "a client survives every function's failure with each status") {
  Layered layered(kit, "fault,leak");
  for (const char *slot :
       {"mem_alloc", "mem_free", "mem_copy", "mem_set", "stream_create", "stream_destroy", "stream_synchronize",
        "stream_wait_event", "event_create", "event_destroy", "event_record", "event_synchronize"})
    for (const tb_status status : {TB_OUT_OF_MEMORY, TB_INTERNAL, TB_UNAVAILABLE, TB_DEVICE_LOST}) {
      const bool used = kit.has_async() || std::string(slot).starts_with("mem_");
      CHECK_EQUAL(sweep(kit, layered, status, std::string(",slot=") + slot) > 0, used);
    }
}

TB_CASE(FLT, 04, TB_GROUP_CORE, "E8", "a release that fails has taken place, one that is refused has not") {
  Layered layered(kit, "fault,leak");
  Fault &fault = layered.layer<Fault>();
  void *block = nullptr;
  CHECK_OK(layered.api.mem_alloc(layered.self, 0, 64, 0, &block));
  fault.arm("nth=0,slot=mem_free,status=9");
  CHECK_STATUS(layered.api.mem_free(layered.self, 0, block), TB_FAILED_PRECONDITION);
  kit.to_device(block, "still here", 10);
  fault.arm("nth=0,slot=mem_free,status=13");
  CHECK_STATUS(layered.api.mem_free(layered.self, 0, block), TB_INTERNAL);
  CHECK(layered.layer<Leak>().live().empty());
  fault.disarm();
}

TB_CASE(FLT, 05, TB_GROUP_CORE, "mem_alloc.3 device_memory_info.2",
        "running out of memory midway gives all of it back") {
  kit.need(kit.api().device_memory_info, "device_memory_info");
  Layered layered(kit, "fault,leak");
  uint64_t before = 0, after = 0, total = 0;
  CHECK_OK(kit.api().device_memory_info(kit.self(), 0, &before, &total));
  for (int nth = 0; nth < 2; ++nth) {
    layered.layer<Fault>().arm("slot=mem_alloc,status=8,nth=" + std::to_string(nth));
    CHECK_STATUS(run_client(kit, layered), TB_OUT_OF_MEMORY);
    CHECK_OK(kit.api().device_memory_info(kit.self(), 0, &after, &total));
    CHECK_EQUAL(after, before);
  }
  check_unharmed(kit, layered);
}

TB_CASE(FLT, 06, TB_GROUP_ASYNC, "event_record.2 event_create.1",
        "an event whose record failed keeps its earlier point") {
  Layered layered(kit, "fault");
  kit::Stream stream(kit);
  kit::Event event(kit);
  kit::Gate gate(kit, stream);
  layered.layer<Fault>().arm("nth=0,slot=event_record");
  CHECK_STATUS(layered.api.event_record(layered.self, event, stream), TB_INTERNAL);
  CHECK_OK(layered.api.event_query(layered.self, event)); // never recorded: complete
  CHECK_OK(layered.api.event_record(layered.self, event, stream));
  CHECK_EQUAL(layered.api.event_query(layered.self, event), static_cast<tb_status>(TB_NOT_READY));
  gate.open();
  CHECK_OK(layered.api.event_synchronize(layered.self, event));
}

TB_CASE(FLT, 07, TB_GROUP_CORE, "T1", "calls that come late change nothing but the time") {
  Layered layered(kit, "fault,leak");
  layered.layer<Fault>().arm("every=2,delay=200");
  for (int round = 0; round < 20; ++round) CHECK_OK(run_client(kit, layered));
  CHECK(layered.layer<Fault>().fired() >= 60);
  check_unharmed(kit, layered);
}

TB_CASE(FLT, 08, TB_GROUP_ASYNC, "event_query.1 event_query.2",
        "a query that says 'not ready' for ever ends a client's patience") {
  Layered layered(kit, "fault");
  kit::Event event(kit);
  layered.layer<Fault>().arm("every=1,slot=event_query,status=32");
  const double until = seconds_now() + 0.02;
  tb_status status = TB_OK;
  do {
    status = layered.api.event_query(layered.self, event);
    CHECK_EQUAL(status, static_cast<tb_status>(TB_NOT_READY));
  } while (seconds_now() < until);
  layered.layer<Fault>().disarm();
  CHECK_OK(layered.api.event_query(layered.self, event));
}

TB_CASE(FLT, 09, TB_GROUP_ASYNC, "stream_destroy.1 device_synchronize.1",
        "a stream whose synchronise failed may be destroyed, and its work is still done") {
  need_submit(kit);
  Layered layered(kit, "fault");
  tb_stream *stream = nullptr;
  CHECK_OK(layered.api.stream_create(layered.self, 0, 0, 0, &stream));
  std::atomic<int> done{0};
  submit_delay(kit, stream, 100); // so that a missing wait is noticed
  for (int place = 0; place < 100; ++place) submit(kit, stream, [&] { ++done; });
  layered.layer<Fault>().arm("nth=0,slot=stream_synchronize,after=0,status=33");
  CHECK_STATUS(layered.api.stream_synchronize(layered.self, stream), TB_DEVICE_LOST);
  CHECK_OK(layered.api.stream_destroy(layered.self, stream));
  CHECK_OK(layered.api.device_synchronize(layered.self, 0));
  CHECK_EQUAL(done.load(), 100);
}

TB_CASE(FLT, 10, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "closure_cancel.1 closure_cancel.2",
        "a closure whose commit failed is cancelled, and the stream goes on") {
  Layered layered(kit, "fault");
  kit::Stream stream(kit);
  static std::atomic<int> calls{0};
  static const tb_closure closure = {sizeof closure, 0, "counts",
                                     [](void *, const tb_closure_context *) -> tb_status { return ++calls, TB_OK; },
                                     [](void *) { ++calls; }};
  calls = 0;
  layered.layer<Fault>().arm("nth=0,slot=closure_commit");
  for (const tb_status wanted : {TB_INTERNAL, TB_OK}) {
    void *storage = nullptr;
    CHECK_OK(layered.api.closure_reserve(layered.self, stream, 64, &storage));
    CHECK_EQUAL(layered.api.closure_commit(layered.self, stream, storage, &closure), wanted);
    if (wanted != TB_OK) CHECK_OK(layered.api.closure_cancel(layered.self, stream, storage));
  }
  stream.synchronize();
  CHECK_EQUAL(calls.load(), 2); // the second closure's run and destroy
}

TB_CASE(FLT, 11, TB_GROUP_CORE, "T1 T2", "a hanging call holds up nobody else, and ends when the layer is disarmed") {
  Layered layered(kit, "fault,leak");
  layered.layer<Fault>().arm("nth=0,hang=1000,slot=mem_alloc");
  kit::Threads threads;
  void *block = nullptr;
  tb_status late = TB_UNKNOWN;
  threads.start([&] { late = layered.api.mem_alloc(layered.self, 0, 64, 0, &block); });
  while (layered.layer<Fault>().fired() == 0) std::this_thread::yield();
  CHECK_OK(run_client(kit, layered));
  layered.layer<Fault>().disarm();
  threads.join();
  CHECK_OK(late);
  CHECK_OK(layered.api.mem_free(layered.self, 0, block));
  check_unharmed(kit, layered);
}

} // namespace tb::contract::fault_injection_cases
