// GRA: launching and updating executables.
#include "contract/support/captured.h"

namespace tb::contract::graph_launch_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC;

// A closure that counts, in an order that can be looked at.
struct Counts {
  std::atomic<int> runs{0}, destroys{0}, inside{0}, most_inside{0};
  tb_status fails = TB_OK;
};

tb_status run_count(void *storage, const tb_closure_context *context) {
  Counts &counts = **static_cast<Counts **>(storage);
  const int inside = ++counts.inside;
  if (inside > counts.most_inside) counts.most_inside = inside;
  std::this_thread::sleep_for(std::chrono::microseconds(300));
  --counts.inside;
  ++counts.runs;
  if (counts.fails) std::snprintf(context->error_text, context->error_capacity, "the node breaks");
  return counts.fails;
}

void count(Kit &kit, tb_stream *stream, Counts &counts) {
  static constexpr tb_closure closure = {sizeof(tb_closure), 0, "contract_count", run_count,
                                         [](void *storage) { ++(*static_cast<Counts **>(storage))->destroys; }};
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, sizeof(Counts *), &storage));
  *static_cast<Counts **>(storage) = &counts;
  CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
}

TB_CASE(GRA, 20, needs, "graph_destroy.1 graph_instantiate.2", "a graph gives several executables, which outlive it",
        .level = 4) {
  kit.graph();
  Block word(kit, 4);
  Stream stream(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, word.data(), 20);
  Graph graph(kit, stream);
  Executable first(kit, graph), second(kit, graph);
  graph.destroy();
  for (const Executable *executable : {&first, &second}) {
    word.fill(0);
    executable->launch(stream);
    stream.synchronize();
    CHECK_EQUAL(read_word(kit, word.data()), 20u);
  }
  first.destroy();
  word.fill(0);
  second.launch(stream);
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 20u);
}

TB_CASE(GRA, 21, needs, "graph_launch.2", "pointers are used again at each launch, values are those of the capture",
        .level = 4) {
  auto [api, self] = driver_of(kit);
  kit.graph();
  Block words(kit, 12);
  words.fill(0);
  Stream stream(kit);
  uint32_t host = 1, value = 100;
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), value);
  CHECK_OK(api.mem_copy(self, 0, stream, words.data() + 4, &host, 4, TB_COPY_HOST_TO_DEVICE));
  Graph graph(kit, stream);
  Executable executable(kit, graph);
  for (uint32_t round = 0; round < 5; ++round) {
    host = 500 + round;
    value = round;
    words.fill(0);
    executable.launch(stream);
    stream.synchronize();
    CHECK(read_words(kit, words.data(), 3) == std::vector<uint32_t>({100, 500 + round, 0}));
  }
}

TB_CASE(GRA, 22, needs, "graph_launch.1 T5", "launches are queued, in the order of their stream", .level = 4) {
  kit.graph();
  constexpr uint32_t round_count = 50;
  Block word(kit, 8), log(kit, 8 * round_count);
  log.fill(0);
  Stream stream(kit);
  begin_capture(kit, stream);
  copy_word(kit, stream, word.data() + 4, word.data());
  Graph graph(kit, stream);
  Executable executable(kit, graph);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  for (uint32_t i = 0; i < round_count; ++i) {
    set_word(kit, stream, word.data(), i + 1);
    executable.launch(stream);
    copy_word(kit, stream, log.data() + 4 * i, word.data() + 4);
  }
  CHECK(!rescue.opened());
  check_held(kit, stream);
  gate.open();
  stream.synchronize();
  const auto got = read_words(kit, log.data(), round_count);
  for (uint32_t i = 0; i < round_count; ++i) CHECK_EQUAL(got[i], i + 1);
}

TB_CASE(GRA, 23, needs, "graph_launch.1 stream_wait_event.1", "events order other streams after a launch", .level = 4) {
  kit.graph();
  Block words(kit, 8);
  words.fill(0);
  Stream stream(kit), waits(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), 23);
  Graph graph(kit, stream);
  Executable executable(kit, graph);
  Gate gate(kit, stream);
  executable.launch(stream);
  connect(kit, stream, waits);
  copy_word(kit, waits, words.data() + 4, words.data());
  check_held(kit, waits);
  gate.open();
  waits.synchronize();
  CHECK_EQUAL(read_word(kit, words.data() + 4), 23u);
}

TB_CASE(GRA, 24, needs | TB_GROUP_CLOSURE, "graph_launch.3",
        "closures run once a launch, and are destroyed once, with the last that has them", .level = 4) {
  kit.graph();
  Counts counts;
  {
    Stream stream(kit);
    begin_capture(kit, stream);
    count(kit, stream, counts);
    Graph graph(kit, stream);
    CHECK_EQUAL(counts.runs.load(), 0);
    Executable first(kit, graph), second(kit, graph);
    for (int i = 0; i < 10; ++i) first.launch(stream);
    second.launch(stream);
    stream.synchronize();
    CHECK_EQUAL(counts.runs.load(), 11);
    graph.destroy();
    first.destroy();
    CHECK_EQUAL(counts.destroys.load(), 0);
    second.launch(stream);
    stream.synchronize();
    CHECK_EQUAL(counts.runs.load(), 12);
  }
  CHECK_EQUAL(counts.destroys.load(), 1);
}

TB_CASE(GRA, 25, needs | TB_GROUP_CLOSURE, "graph_launch.3 capture_end.3",
        "closures of a graph that is never launched are destroyed, not run", .level = 4) {
  const tb_graph_api &graphs = kit.graph();
  Counts dropped, unused;
  Stream stream(kit), joins(kit);
  begin_capture(kit, stream);
  count(kit, stream, unused);
  {
    Graph graph(kit, stream);
  }
  CHECK_EQUAL(unused.destroys.load(), 1);
  begin_capture(kit, stream);
  count(kit, stream, dropped);
  connect(kit, stream, joins);
  tb_graph *graph = nullptr;
  CHECK_STATUS(graphs.capture_end(kit.self(), stream, &graph), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(dropped.destroys.load(), 1);
  stream.synchronize();
  CHECK_EQUAL(dropped.runs + unused.runs, 0);
}

TB_CASE(GRA, 26, needs | TB_GROUP_CLOSURE, "graph_launch.4", "launches of one executable never overlap, on any streams",
        .level = 4) {
  auto [api, self] = driver_of(kit);
  kit.graph();
  Counts counts;
  Stream streams[3] = {Stream(kit), Stream(kit), Stream(kit)};
  begin_capture(kit, streams[0]);
  count(kit, streams[0], counts);
  Graph graph(kit, streams[0]);
  Executable executable(kit, graph);
  for (int i = 0; i < 30; ++i) executable.launch(streams[i % 3]);
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK_EQUAL(counts.runs.load(), 30);
  CHECK_EQUAL(counts.most_inside.load(), 1);
}

TB_CASE(GRA, 27, needs | TB_GROUP_CLOSURE, "graph_launch.5 E4",
        "a failing node leaves out those behind it and is reported at the next synchronise, once per launch",
        .level = 4) {
  auto [api, self] = driver_of(kit);
  kit.graph();
  Counts counts;
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit);
  begin_capture(kit, stream);
  count(kit, stream, counts);
  set_word(kit, stream, word.data(), 27);
  Graph graph(kit, stream);
  Executable executable(kit, graph);
  for (int round = 0; round < 3; ++round) {
    counts.fails = TB_INTERNAL;
    executable.launch(stream);
    CHECK_EQUAL(api.stream_synchronize(self, stream), tb_status(TB_INTERNAL));
    CHECK(kit.take_error().text.find("the node breaks") != std::string::npos);
    CHECK_OK(api.stream_synchronize(self, stream));
  }
  CHECK_EQUAL(read_word(kit, word.data()), 0u);
  counts.fails = TB_OK;
  executable.launch(stream);
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 27u);
}

// Captures fills of the two words, or a fill and a copy.
void capture_pair(Kit &kit, tb_stream *stream, uint8_t *words, uint32_t value, bool copies = false) {
  begin_capture(kit, stream);
  set_word(kit, stream, words, value);
  if (copies)
    copy_word(kit, stream, words + 4, words);
  else
    set_word(kit, stream, words + 4, value + 1);
}

TB_CASE(GRA, 28, needs, "graph_update.1", "an executable takes over another graph's arguments from its next launch on",
        .level = 4) {
  auto [api, self] = driver_of(kit);
  const tb_graph_api &graphs = kit.graph();
  Block first(kit, 8), second(kit, 8);
  first.fill(0);
  second.fill(0);
  Stream stream(kit);
  capture_pair(kit, stream, first.data(), 281);
  Graph graph(kit, stream);
  capture_pair(kit, stream, second.data(), 282);
  Graph other(kit, stream);
  Executable executable(kit, graph);
  {
    Gate gate(kit, stream); // a launch that is queued already keeps the old ones
    executable.launch(stream);
    const tb_status status = graphs.graph_update(self, executable, other);
    CHECK_OK(status);
  }
  CHECK(read_words(kit, first.data(), 2) == std::vector<uint32_t>({281, 282}));
  CHECK(read_words(kit, second.data(), 2) == std::vector<uint32_t>({0, 0}));
  other.destroy();
  first.fill(0);
  executable.launch(stream);
  stream.synchronize();
  CHECK(read_words(kit, first.data(), 2) == std::vector<uint32_t>({0, 0}));
  CHECK(read_words(kit, second.data(), 2) == std::vector<uint32_t>({282, 283}));
}

TB_CASE(GRA, 29, needs, "graph_update.2", "a graph of another shape is refused, and the executable is as it was",
        .level = 4) {
  auto [api, self] = driver_of(kit);
  const tb_graph_api &graphs = kit.graph();
  Block words(kit, 12), others(kit, 12);
  others.fill(0);
  Stream stream(kit);
  capture_pair(kit, stream, words.data(), 29);
  Graph graph(kit, stream);
  Executable executable(kit, graph);
  const auto check_refused = [&, self = self](tb_graph *other) {
    CHECK_STATUS(graphs.graph_update(self, executable, other), TB_FAILED_PRECONDITION);
    words.fill(0);
    executable.launch(stream);
    stream.synchronize();
    CHECK(read_words(kit, words.data(), 3) == std::vector<uint32_t>({29, 30, 0}));
  };
  {
    capture_pair(kit, stream, others.data(), 1);
    set_word(kit, stream, others.data() + 8, 1);
    Graph more(kit, stream);
    check_refused(more);
  }
  {
    begin_capture(kit, stream);
    set_word(kit, stream, others.data(), 1);
    Graph fewer(kit, stream);
    check_refused(fewer);
  }
  {
    capture_pair(kit, stream, others.data(), 1, true);
    Graph other_kind(kit, stream);
    check_refused(other_kind);
  }
  capture_pair(kit, stream, words.data(), 29, true);
  Graph fill_then_copy(kit, stream);
  Executable in_order(kit, fill_then_copy);
  begin_capture(kit, stream);
  copy_word(kit, stream, others.data() + 4, others.data());
  set_word(kit, stream, others.data(), 1);
  Graph copy_then_fill(kit, stream);
  CHECK_STATUS(graphs.graph_update(self, in_order, copy_then_fill), TB_FAILED_PRECONDITION);
  in_order.launch(stream);
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, words.data() + 4), 29u);
  CHECK(read_words(kit, others.data(), 3) == std::vector<uint32_t>(3, 0));
}

TB_CASE(GRA, 30, needs, "graph_exec_destroy.1", "launches queued before the executable is destroyed still complete",
        .level = 4) {
  kit.graph();
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit);
  {
    Gate gate(kit, stream);
    OpensLater opener(gate, soon); // destroying may wait
    Stream captures(kit);
    begin_capture(kit, captures);
    set_word(kit, captures, word.data(), 30);
    Graph graph(kit, captures);
    Executable executable(kit, graph);
    for (int i = 0; i < 5; ++i) executable.launch(stream);
    executable.destroy();
    graph.destroy();
  }
  CHECK_EQUAL(read_word(kit, word.data()), 30u);
}

} // namespace
} // namespace tb::contract::graph_launch_cases
