// Cases about what stays behind: memory, descriptors, threads, objects.
#include <atomic>

#include "contract/kit.h"

namespace tb::contract::leaks_cases {
namespace {

// What is kept for good over ten thousand objects: less than a hundred bytes each.
constexpr uint64_t allowed_growth = 1'000'000;
constexpr int round_count = 10'000;
constexpr int batches = 6;

// A pool or a quarantine grows to its bound and stays there; a leak grows with every batch.
template <class Once> void stays_flat(Kit &kit, const char *what, Once once) {
  uint64_t growth = 0;
  for (int batch = 0; batch < batches; ++batch) {
    const uint64_t before = resident_bytes();
    for (int i = 0; i < round_count; ++i) once();
    kit.synchronize(kit.default_stream());
    const uint64_t after = resident_bytes();
    count_check();
    growth = after > before ? after - before : 0;
    if (batch > 0 && growth <= allowed_growth) return;
  }
  throw Failed(std::string(what) + ": memory still grows by " + std::to_string(growth) +
               " bytes with each ten thousand of them");
}

// One of everything that the driver makes, used and freed.
void use_everything(Kit &kit) {
  kit::Block block(kit, 1 << 16);
  block.fill(1);
  if (!kit.has_async()) return;
  kit::Stream stream(kit);
  kit::Event event(kit);
  CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block.data(), 2, 1, 1 << 16));
  CHECK_OK(kit.api().event_record(kit.self(), event, stream));
  CHECK_OK(kit.api().event_synchronize(kit.self(), event));
}

} // namespace

TB_CASE(LEK, 01, TB_GROUP_CORE, "close.2 mem_free.1", "when everything is freed, close agrees") {
  Kit second(kit.target(), kit.options());
  for (int i = 0; i < 10; ++i) use_everything(second);
  {
    kit::Block block(second, 64);
    CHECK_STATUS(second.api().close(second.self()), TB_FAILED_PRECONDITION);
  }
  if (second.has_async()) {
    {
      kit::Stream stream(second);
      CHECK_STATUS(second.api().close(second.self()), TB_FAILED_PRECONDITION);
    }
    kit::Event event(second);
    CHECK_STATUS(second.api().close(second.self()), TB_FAILED_PRECONDITION);
  }
  second.close();
}

TB_CASE(LEK, 02, TB_GROUP_CORE, "mem_free.1", "ten thousand blocks leave no memory behind") {
  stays_flat(kit, "mem_alloc and mem_free", [&] {
    void *block = nullptr;
    CHECK_OK(kit.api().mem_alloc(kit.self(), 0, 4096, 0, &block));
    CHECK_OK(kit.api().mem_free(kit.self(), 0, block));
  });
}

TB_CASE(LEK, 03, TB_GROUP_CORE, "close.3", "descriptors and threads are the same after a hundred uses",
        .own_process = true) {
  use_everything(kit);
  kit.synchronize_device();
  const int descriptors = open_descriptors(), threads = thread_count();
  for (int i = 0; i < 100; ++i) use_everything(kit);
  kit.synchronize_device();
  CHECK_EQUAL(open_descriptors(), descriptors);
  CHECK_EQUAL(threads_beyond(threads), 0);
}

TB_CASE(LEK, 04, TB_GROUP_CORE, "E1 mem_alloc.3", "a create that fails leaves nothing behind") {
  Kit second(kit.target(), kit.options());
  uint64_t before = 0, after = 0, total = 0;
  const auto free_bytes = [&](uint64_t *out) {
    if (second.api().device_memory_info) CHECK(second.api().device_memory_info(second.self(), 0, out, &total) == TB_OK);
  };
  free_bytes(&before);
  for (int i = 0; i < 1000; ++i) {
    void *block = nullptr;
    CHECK_STATUS(second.api().mem_alloc(second.self(), 0, second.info().total_memory + 1, 0, &block), TB_OUT_OF_MEMORY);
    tb_stream *stream = nullptr;
    tb_event *event = nullptr;
    if (!second.has_async()) continue;
    const uint64_t unknown = uint64_t(1) << 63;
    CHECK_STATUS(second.api().stream_create(second.self(), 0, 0, unknown, &stream), TB_INVALID_ARGUMENT);
    CHECK_STATUS(second.api().event_create(second.self(), 0, unknown, &event), TB_INVALID_ARGUMENT);
  }
  free_bytes(&after);
  CHECK_EQUAL(after, before);
  second.close(); // no object without a handle
}

TB_CASE(LEK, 05, TB_GROUP_ASYNC, "stream_destroy.1 event_destroy.1",
        "ten thousand streams and events leave no memory behind") {
  tb_stream *stream = kit.default_stream();
  stays_flat(kit, "event_create, event_record and event_destroy", [&] {
    kit::Event event(kit);
    CHECK_OK(kit.api().event_record(kit.self(), event, stream));
  });
  stays_flat(kit, "stream_create and stream_destroy", [&] { kit::Stream unused(kit); });
}

TB_CASE(LEK, 07, TB_GROUP_CORE, "device_memory_info.2", "memory_info is back at its start when everything is freed") {
  kit.need(kit.api().device_memory_info, "device_memory_info");
  const auto free_bytes = [&](int32_t device) {
    uint64_t free = 0, total = 0;
    CHECK_OK(kit.api().device_memory_info(kit.self(), device, &free, &total));
    return free;
  };
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    const uint64_t before = free_bytes(device);
    for (int round = 0; round < 100; ++round) {
      kit::Block small(kit, 1, device), odd(kit, 12345, device), large(kit, 1 << 20, device);
      CHECK(free_bytes(device) < before);
    }
    CHECK_EQUAL(free_bytes(device), before);
  }
}

TB_CASE(LEK, 08, TB_GROUP_CORE, "close.3 T8", "close finishes queued work and ends the driver's threads",
        .own_process = true) {
  {
    Opened warm(kit.target(), kit.options());
  }
  const int before = thread_count();
  for (int round = 0; round < 5; ++round) {
    Kit second(kit.target(), kit.options());
    use_everything(second);
    std::atomic<int> done{0};
    if (second.offers(TB_GROUP_CLOSURE) || second.offers(TB_GROUP_HOSTCALL)) {
      submit_delay(second, second.default_stream(), 20);
      submit(second, second.default_stream(), [&] { ++done; });
    } else {
      done = 1;
    }
    second.close();
    CHECK_EQUAL(done.load(), 1);
    CHECK_EQUAL(threads_beyond(before), 0);
  }
}

} // namespace tb::contract::leaks_cases
