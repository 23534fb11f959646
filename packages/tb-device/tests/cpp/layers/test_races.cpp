// The layer races: what it calls a race, and what it does not.
#include "layers/races/races.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tb/graph.h"
#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

#ifdef __SANITIZE_THREAD__
// The races between copies and sets are planted.
extern "C" const char *__tsan_default_suppressions() {
  return "race:drivers::cpu::CopyWork::run\nrace:drivers::cpu::FillWork::run\n";
}
#endif

using tb::layers::Extent;
using tb::layers::Races;
using test::LayeredDriver;

namespace {

struct CheckedDriver : LayeredDriver {
  CheckedDriver() : LayeredDriver("races") {
    if (api.get_extension(self, TB_RACES_EXTENSION, TB_RACES_VERSION, &races, sizeof races) != TB_OK)
      throw std::runtime_error(test::take_error());
  }
  ~CheckedDriver() {
    for (tb_stream *stream : streams) (void)api.stream_synchronize(self, stream);
    for (void *block : blocks) (void)api.mem_free(self, 0, block);
    for (tb_stream *stream : streams) (void)api.stream_destroy(self, stream);
  }
  tb_stream *stream() { return streams.emplace_back(create_stream()); }
  char *block(uint64_t size) { return static_cast<char *>(blocks.emplace_back(allocate(size))); }
  size_t found() { return layer<Races>().races().size(); }
  // Work of `stream` that uses `size` bytes.
  void use(tb_stream *stream, const void *address, int64_t size, bool writes, uint32_t flags = 0) {
    const int64_t stride = 1;
    const tb_races_memory memory{
        address, &size, &stride, 1, 1, static_cast<uint32_t>(flags | (writes ? TB_RACES_WRITES : 0)), 0, "x"};
    races.use(races.layer, stream, stream ? races.work(races.layer, stream) : 0, "test", &memory, 1);
  }
  void order(tb_stream *first, tb_stream *second) {
    tb_event *event = create_event();
    CHECK_EQUAL(api.event_record(self, event, first), TB_OK);
    CHECK_EQUAL(api.stream_wait_event(self, second, event), TB_OK);
    CHECK_EQUAL(api.event_destroy(self, event), TB_OK);
  }
  tb_races_api races{};
  std::vector<tb_stream *> streams;
  std::vector<void *> blocks;
};

Extent columns(const void *address, int64_t rows, int64_t width, int64_t pitch) {
  const int64_t sizes[] = {rows, width}, strides[] = {pitch, 1};
  return Extent::of({address, sizes, strides, 2, 1, 0, 0, ""});
}

} // namespace

CASE(a_write_and_a_use_of_two_streams_without_an_order_are_a_race) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  char *block = driver.block(100);
  driver.use(one, block, 100, true);
  driver.use(other, block + 50, 10, false);
  CHECK_EQUAL(driver.found(), 1u);
  const auto race = driver.layer<Races>().races()[0];
  CHECK(race.first.stream == one && race.second.stream == other);
  CHECK(race.first.use.writes && !race.second.use.writes);
  CHECK_EQUAL(race.bytes, 10u);
  driver.use(other, block + 50, 10, false); // the same pair is reported once
  CHECK_EQUAL(driver.found(), 1u);
}

CASE(reads_and_other_bytes_are_no_race) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  char *block = driver.block(100);
  driver.use(one, block, 50, false);
  driver.use(other, block, 50, false);
  driver.use(one, block + 50, 10, true);
  driver.use(other, block + 60, 10, true);
  CHECK_EQUAL(driver.found(), 0u);
}

CASE(events_waits_and_queries_order_and_order_is_transitive) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *two = driver.stream(), *three = driver.stream();
  void *block = driver.block(100);
  driver.use(one, block, 100, true);
  driver.order(one, two);
  driver.use(two, block, 100, false);
  driver.order(two, three);
  driver.use(three, block, 100, true);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, three), TB_OK);
  driver.use(one, block, 100, true);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  driver.use(two, block, 100, true);
  CHECK_EQUAL(driver.found(), 0u);
  driver.use(three, block, 100, false);
  CHECK_EQUAL(driver.found(), 1u);
}

CASE(an_event_orders_what_came_before_its_record_only) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *block = driver.block(100);
  tb_event *event = driver.create_event();
  CHECK_EQUAL(driver.api.event_record(driver.self, event, one), TB_OK);
  driver.use(one, block, 100, true);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, other, event), TB_OK);
  driver.use(other, block, 100, true);
  CHECK_EQUAL(driver.found(), 1u);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(copies_and_sets_of_the_table_are_uses) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *from = driver.block(100), *to = driver.block(100);
  CHECK_EQUAL(driver.set(one, from, 100), TB_OK);
  CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, other, to, from, 100, TB_COPY_DEVICE_TO_DEVICE), TB_OK);
  CHECK_EQUAL(driver.found(), 1u);
}

CASE(the_host_races_with_streams_over_pinned_memory_only) {
  CheckedDriver driver;
  tb_stream *stream = driver.stream();
  void *pinned = nullptr;
  char plain[100] = {};
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 100, 0, &pinned), TB_OK);
  driver.use(stream, plain, 100, true, TB_RACES_ON_HOST);
  driver.use(nullptr, plain, 100, false, TB_RACES_ON_HOST);
  CHECK_EQUAL(driver.found(), 0u);
  driver.use(stream, pinned, 100, true, TB_RACES_ON_HOST);
  driver.use(nullptr, pinned, 100, false, TB_RACES_ON_HOST);
  CHECK_EQUAL(driver.found(), 1u);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  driver.use(nullptr, pinned, 100, true, TB_RACES_ON_HOST);
  driver.use(stream, pinned, 100, true, TB_RACES_ON_HOST); // the host is done when it queues work
  CHECK_EQUAL(driver.found(), 1u);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
}

CASE(a_wait_inside_an_operator_orders_only_if_the_operator_promises_it) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *block = driver.block(100);
  for (const bool promises : {true, false}) {
    driver.use(one, block, 100, true);
    const tb_races_scope around = driver.races.enter(driver.races.layer, one, promises);
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, one), TB_OK);
    driver.races.leave(driver.races.layer, around);
    driver.use(other, block, 100, false);
    CHECK_EQUAL(driver.found(), promises ? 0u : 1u);
    driver.order(other, one);
  }
}

CASE(a_graph_uses_memory_when_it_is_launched) {
  CheckedDriver driver;
  tb_graph_api graphs{};
  graphs.struct_size = sizeof graphs;
  CHECK_EQUAL(driver.api.get_extension(driver.self, TB_GRAPH_EXTENSION, TB_GRAPH_VERSION, &graphs, sizeof graphs),
              TB_OK);
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *block = driver.block(100);
  driver.use(other, block, 100, true);
  CHECK_EQUAL(graphs.capture_begin(driver.self, one, 0), TB_OK);
  CHECK_EQUAL(driver.set(one, block, 100), TB_OK);
  tb_graph *graph = nullptr;
  tb_graph_exec *executable = nullptr;
  CHECK_EQUAL(graphs.capture_end(driver.self, one, &graph), TB_OK);
  CHECK_EQUAL(graphs.graph_instantiate(driver.self, graph, 0, &executable), TB_OK);
  CHECK_EQUAL(driver.found(), 0u); // nothing ran yet
  driver.order(other, one);
  CHECK_EQUAL(graphs.graph_launch(driver.self, executable, one), TB_OK);
  CHECK_EQUAL(driver.found(), 0u);
  driver.use(other, block, 100, false);
  CHECK_EQUAL(driver.found(), 1u);
  CHECK_EQUAL(graphs.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(graphs.graph_destroy(driver.self, graph), TB_OK);
}

CASE(marks_order_queues_that_the_driver_does_not_see) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *block = driver.block(100);
  int mark = 0;
  driver.use(one, block, 100, true);
  driver.races.mark(driver.races.layer, &mark, one);
  driver.races.follow(driver.races.layer, other, &mark);
  driver.use(other, block, 100, true);
  CHECK_EQUAL(driver.found(), 0u);
  driver.races.forget(driver.races.layer, &mark);
  driver.use(one, block, 100, true);
  CHECK_EQUAL(driver.found(), 1u);
}

CASE(memory_that_the_driver_gives_again_has_no_past) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  for (int turn = 0; turn < 4; ++turn) {
    void *block = driver.allocate(4096);
    driver.use(turn % 2 ? one : other, block, 4096, true);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  }
  CHECK_EQUAL(driver.found(), 0u);
}

CASE(columns_of_a_matrix_overlap_only_where_they_share_elements) {
  char matrix[40 * 100];
  const Extent left = columns(matrix, 40, 50, 100), right = columns(matrix + 50, 40, 50, 100),
               middle = columns(matrix + 49, 40, 2, 100), row = Extent::range(matrix + 300, 100),
               gap = Extent::range(matrix + 350, 50);
  CHECK(!left.overlaps(right) && !right.overlaps(left));
  CHECK(left.overlaps(middle) && right.overlaps(middle) && middle.overlaps(left));
  CHECK(left.overlaps(row) && row.overlaps(right));
  CHECK(!left.overlaps(gap) && !gap.overlaps(left) && right.overlaps(gap));
  CHECK(!columns(matrix, 40, 100, 100).rows); // rows that touch are one range
  CHECK(columns(matrix, 0, 5, 100).empty());
}

CASE(a_callback_that_has_run_lets_the_host_see_what_came_before) {
  CheckedDriver driver;
  tb_stream *one = driver.stream(), *other = driver.stream();
  void *block = driver.block(100);
  std::atomic<bool> ran{false};
  driver.use(one, block, 100, true);
  CHECK_EQUAL(
      driver.api.stream_host_call(
          driver.self, one, [](void *user, tb_status) { static_cast<std::atomic<bool> *>(user)->store(true); }, &ran),
      TB_OK);
  while (!ran) std::this_thread::yield();
  driver.use(other, block, 100, true);
  CHECK_EQUAL(driver.found(), 0u);
}
