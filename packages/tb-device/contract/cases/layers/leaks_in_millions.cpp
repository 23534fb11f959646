// Area LEK, the slow part: a million objects of each kind come and go, and nothing stays behind.
//
// Only with --slow. LEK-02 does the same ten thousand times.
#include <cstring>

#include "contract/support/loaded.h"

namespace tb::contract::leaks_in_millions_cases {
namespace {

constexpr int round_count = 1'000'000;
constexpr int warm_up = 20'000; // pools and caches that a driver fills once
// Less than a byte and a half for each object: whatever is kept per object shows.
constexpr uint64_t allowed_growth = 1'500'000;

// Runs `once` until caches are warm, then a million times; memory, descriptors and threads must be where they were.
template <class Once> void churn(Kit &kit, Once once) {
  for (int round = 0; round < warm_up; ++round) once();
  kit.synchronize_device();
  const uint64_t bytes = resident_bytes();
  const int descriptors = open_descriptors(), threads = thread_count();
  for (int round = 0; round < round_count; ++round) once();
  kit.synchronize_device();
  const uint64_t after = resident_bytes();
  CHECK_EQUAL(open_descriptors(), descriptors);
  CHECK_EQUAL(threads_beyond(threads), 0);
  const uint64_t growth = after > bytes ? after - bytes : 0;
  if (growth > allowed_growth) kit.state("grew by " + std::to_string(growth) + " bytes over a million objects");
  CHECK(growth <= allowed_growth);
}

} // namespace

TB_CASE(LEK, 20, TB_GROUP_CORE, "mem_free.1", "a million blocks", .seconds = 120, .slow = true) {
  churn(kit, [&] {
    void *pointer = nullptr;
    CHECK_OK(kit.api().mem_alloc(kit.self(), 0, 4096, 0, &pointer));
    CHECK_OK(kit.api().mem_free(kit.self(), 0, pointer));
  });
}

TB_CASE(LEK, 21, TB_GROUP_ASYNC, "stream_destroy.1", "a million streams", .seconds = 120, .slow = true) {
  churn(kit, [&] {
    tb_stream *stream = nullptr;
    CHECK_OK(kit.api().stream_create(kit.self(), 0, 0, 0, &stream));
    CHECK_OK(kit.api().stream_destroy(kit.self(), stream));
  });
}

TB_CASE(LEK, 22, TB_GROUP_ASYNC, "event_destroy.1", "a million events, each recorded", .seconds = 120, .slow = true) {
  tb_stream *stream = kit.default_stream();
  churn(kit, [&] {
    tb_event *event = nullptr;
    CHECK_OK(kit.api().event_create(kit.self(), 0, 0, &event));
    CHECK_OK(kit.api().event_record(kit.self(), event, stream));
    CHECK_OK(kit.api().event_destroy(kit.self(), event));
  });
}

TB_CASE(LEK, 23, TB_GROUP_PIN, "mem_free_host.1", "a million pinned blocks", .seconds = 120, .slow = true) {
  churn(kit, [&] {
    void *pointer = nullptr;
    CHECK_OK(kit.api().mem_alloc_host(kit.self(), 0, 4096, 0, &pointer));
    CHECK_OK(kit.api().mem_free_host(kit.self(), pointer));
  });
}

TB_CASE(LEK, 24, TB_GROUP_SOA | TB_GROUP_ASYNC, "mem_free_async.1", "a million stream-ordered blocks", .seconds = 120,
        .slow = true) {
  kit::Stream stream(kit);
  int round = 0;
  churn(kit, [&] {
    void *pointer = nullptr;
    CHECK_OK(kit.api().mem_alloc_async(kit.self(), stream, 4096, 0, &pointer));
    CHECK_OK(kit.api().mem_free_async(kit.self(), stream, pointer));
    if (++round % 1000 == 0) stream.synchronize(); // what is queued is not a leak
  });
}

TB_CASE(LEK, 25, TB_GROUP_VMM, "vmm_release.1", "a million reservations with memory mapped", .seconds = 300,
        .slow = true) {
  uint64_t minimum = 0, recommended = 0;
  CHECK_OK(kit.api().vmm_granularity(kit.self(), 0, &minimum, &recommended));
  churn(kit, [&] {
    void *address = nullptr;
    tb_physical *physical = nullptr;
    CHECK_OK(kit.api().vmm_reserve(kit.self(), minimum, 0, nullptr, &address));
    CHECK_OK(kit.api().vmm_create(kit.self(), 0, minimum, 0, &physical));
    CHECK_OK(kit.api().vmm_map(kit.self(), address, minimum, physical, 0));
    CHECK_OK(kit.api().vmm_unmap(kit.self(), address, minimum));
    CHECK_OK(kit.api().vmm_destroy(kit.self(), physical));
    CHECK_OK(kit.api().vmm_release(kit.self(), address, minimum));
  });
}

TB_CASE(LEK, 26, TB_GROUP_NATIVE | TB_GROUP_ASYNC, "stream_wrap.2", "a million wrapped streams", .seconds = 120,
        .slow = true) {
  kit::Stream stream(kit);
  uint64_t native = 0;
  CHECK_OK(kit.api().stream_native(kit.self(), stream, &native));
  churn(kit, [&] {
    tb_stream *wrapper = nullptr;
    CHECK_OK(kit.api().stream_wrap(kit.self(), 0, native, &wrapper));
    CHECK_OK(kit.api().stream_destroy(kit.self(), wrapper));
  });
}

TB_CASE(LEK, 27, TB_GROUP_CLOSURE | TB_GROUP_ASYNC, "closure_commit.1", "a million closures, run and destroyed",
        .seconds = 120, .slow = true) {
  static std::atomic<uint64_t> alive{0};
  static const tb_closure closure = {sizeof(tb_closure), 0, "churn",
                                     [](void *, const tb_closure_context *) { return tb_status{TB_OK}; },
                                     [](void *) { alive.fetch_sub(1); }};
  tb_stream *stream = kit.default_stream();
  churn(kit, [&] {
    void *storage = nullptr;
    CHECK_OK(kit.api().closure_reserve(kit.self(), stream, 256, &storage));
    alive.fetch_add(1);
    CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
  });
  CHECK_EQUAL(alive.load(), uint64_t{0});
}

TB_CASE(LEK, 28, TB_GROUP_ASYNC, "graph_destroy.1 graph_exec_destroy.1", "a million graphs, instantiated", .level = 4,
        .seconds = 300, .slow = true) {
  const tb_graph_api &graphs = kit.graph();
  kit::Stream stream(kit);
  kit::Block block(kit, 256);
  churn(kit, [&] {
    tb_graph *graph = nullptr;
    tb_graph_exec *executable = nullptr;
    CHECK_OK(graphs.capture_begin(kit.self(), stream, 0));
    CHECK_OK(kit.api().mem_set(kit.self(), 0, stream, block.data(), 1, 1, 256));
    CHECK_OK(graphs.capture_end(kit.self(), stream, &graph));
    CHECK_OK(graphs.graph_instantiate(kit.self(), graph, 0, &executable));
    CHECK_OK(graphs.graph_destroy(kit.self(), graph));
    CHECK_OK(graphs.graph_exec_destroy(kit.self(), executable));
  });
}

TB_CASE(LEK, 29, TB_GROUP_MODULE | TB_GROUP_ASYNC, "module_unload.1", "a million modules", .seconds = 600,
        .slow = true) {
  const std::vector<char> image = image_of(kit);
  churn(kit, [&] {
    tb_module *module = nullptr;
    CHECK_OK(kit.api().module_load(kit.self(), 0, image.data(), image.size(), "", &module));
    CHECK_OK(kit.api().module_unload(kit.self(), module));
  });
}

} // namespace tb::contract::leaks_in_millions_cases
