// GRA: capturing the work of a stream.
#include "contract/support/captured.h"

namespace tb::contract::graphs_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC;

TB_CASE(GRA, 01, needs, "capture_begin.1 capture_end.1 graph_launch.1 graph_instantiate.1",
        "captured work runs at each launch, and not before", .level = 4) {
  Block words(kit, 8);
  words.fill(0);
  Stream stream(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), 1);
  copy_word(kit, stream, words.data() + 4, words.data());
  Graph graph(kit, stream);
  stream.synchronize();
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>(2, 0));
  Executable executable(kit, graph);
  stream.synchronize();
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>(2, 0));
  for (int round = 0; round < 3; ++round) {
    words.fill(0);
    executable.launch(stream);
    stream.synchronize();
    CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>(2, 1));
  }
}

TB_CASE(GRA, 02, needs, "capture_begin.2", "work queued before the capture runs, and is not part of it", .level = 4) {
  auto [api, self] = driver_of(kit);
  kit.graph();
  Block words(kit, 8);
  words.fill(0);
  Stream stream(kit);
  Event before(kit);
  Gate gate(kit, stream);
  set_word(kit, stream, words.data(), 2);
  CHECK_OK(api.event_record(self, before, stream));
  begin_capture(kit, stream);
  gate.open();
  set_word(kit, stream, words.data() + 4, 3);
  CHECK_OK(api.event_synchronize(self, before)); // while the capture goes on
  CHECK_EQUAL(read_word(kit, words.data()), 2u);
  Graph graph(kit, stream);
  CHECK_EQUAL(graph.nodes(), uint64_t(1));
  words.fill(0);
  Executable executable(kit, graph);
  executable.launch(stream);
  stream.synchronize();
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>({0, 3}));
}

TB_CASE(GRA, 03, needs, "capture_begin.3", "a capturing stream and the default stream begin no capture", .level = 4) {
  const tb_graph_api &graphs = kit.graph();
  Block word(kit, 4);
  Stream stream(kit);
  CHECK_STATUS(graphs.capture_begin(kit.self(), kit.default_stream(), 0), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(is_capturing(kit, kit.default_stream()), 0);
  begin_capture(kit, stream);
  set_word(kit, stream, word.data(), 3);
  CHECK_STATUS(graphs.capture_begin(kit.self(), stream, 0), TB_FAILED_PRECONDITION);
  set_word(kit, stream, word.data(), 4);
  Graph graph(kit, stream); // it went on
  CHECK_EQUAL(graph.nodes(), uint64_t(2));
}

TB_CASE(GRA, 04, needs, "capture_begin.4", "other streams run while one captures", .level = 4) {
  Block words(kit, 8);
  words.fill(0);
  Stream captures(kit), runs(kit);
  begin_capture(kit, captures);
  set_word(kit, captures, words.data(), 4);
  set_word(kit, runs, words.data() + 4, 5);
  runs.synchronize();
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>({0, 5}));
  CHECK_EQUAL(is_capturing(kit, runs), 0);
  Graph graph(kit, captures);
  CHECK_EQUAL(graph.nodes(), uint64_t(1));
}

TB_CASE(GRA, 05, needs, "capture_begin.5",
        "a capturing stream and its device are not waited for, and the capture goes on", .level = 4) {
  auto [api, self] = driver_of(kit);
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, word.data(), 5);
  CHECK_STATUS(api.stream_query(self, stream), TB_FAILED_PRECONDITION);
  CHECK_STATUS(api.stream_synchronize(self, stream), TB_FAILED_PRECONDITION);
  CHECK_STATUS(api.device_synchronize(self, 0), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(is_capturing(kit, stream), 1);
  Graph graph(kit, stream);
  CHECK_OK(api.device_synchronize(self, 0));
  CHECK_EQUAL(graph.nodes(), uint64_t(1));
  Executable executable(kit, graph);
  executable.launch(stream);
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 5u);
}

TB_CASE(GRA, 06, needs, "capture_is_active.1", "a stream captures from begin to end, also one that joined",
        .level = 4) {
  kit.graph();
  Stream stream(kit), joins(kit);
  CHECK_EQUAL(is_capturing(kit, stream), 0);
  begin_capture(kit, stream);
  CHECK_EQUAL(is_capturing(kit, stream), 1);
  CHECK_EQUAL(is_capturing(kit, joins), 0);
  connect(kit, stream, joins);
  CHECK_EQUAL(is_capturing(kit, joins), 1);
  connect(kit, joins, stream);
  Graph graph(kit, stream);
  CHECK_EQUAL(is_capturing(kit, stream), 0);
  CHECK_EQUAL(is_capturing(kit, joins), 0);
  stream.synchronize();
  joins.synchronize();
}

TB_CASE(GRA, 07, needs, "capture_end.2 E1", "a stream that does not capture, or only joined, ends no capture",
        .level = 4) {
  const tb_graph_api &graphs = kit.graph();
  tb_stream *const default_stream = kit.default_stream();
  Stream idle(kit), stream(kit), joins(kit);
  tb_graph *graph = nullptr;
  CHECK_STATUS(graphs.capture_end(kit.self(), idle, &graph), TB_FAILED_PRECONDITION);
  CHECK_STATUS(graphs.capture_end(kit.self(), default_stream, &graph), TB_FAILED_PRECONDITION);
  begin_capture(kit, stream);
  connect(kit, stream, joins);
  CHECK_STATUS(graphs.capture_end(kit.self(), joins, &graph), TB_FAILED_PRECONDITION);
  CHECK(graph == nullptr);
  connect(kit, joins, stream);
  Graph whole(kit, stream); // it went on
}

TB_CASE(GRA, 08, needs, "capture_end.3", "a joined stream that was not waited for drops the capture", .level = 4) {
  const tb_graph_api &graphs = kit.graph();
  Block words(kit, 8);
  words.fill(0);
  Stream stream(kit), joins(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), 8);
  connect(kit, stream, joins);
  set_word(kit, joins, words.data() + 4, 8);
  tb_graph *graph = nullptr;
  CHECK_STATUS(graphs.capture_end(kit.self(), stream, &graph), TB_FAILED_PRECONDITION);
  CHECK(graph == nullptr);
  CHECK_EQUAL(is_capturing(kit, stream), 0);
  CHECK_EQUAL(is_capturing(kit, joins), 0);
  stream.synchronize();
  joins.synchronize();
  CHECK(read_words(kit, words.data(), 2) == std::vector<uint32_t>({0, 0}));
  set_word(kit, joins, words.data(), 9); // usable as before
  joins.synchronize();
  CHECK_EQUAL(read_word(kit, words.data()), 9u);
}

TB_CASE(GRA, 09, needs, "graph_node_count.1", "nodes are the calls that enqueue; events and waits are not",
        .level = 4) {
  kit.graph();
  Block words(kit, 16);
  Stream stream(kit), joins(kit);
  begin_capture(kit, stream);
  {
    Graph empty(kit, stream);
    CHECK_EQUAL(empty.nodes(), uint64_t(0));
    Executable executable(kit, empty);
    executable.launch(stream);
    stream.synchronize();
  }
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), 1);
  copy_word(kit, stream, words.data() + 4, words.data());
  connect(kit, stream, joins);
  set_word(kit, joins, words.data() + 8, 2);
  connect(kit, joins, stream);
  connect(kit, stream, stream);
  set_word(kit, stream, words.data() + 12, 3);
  Graph graph(kit, stream);
  CHECK_EQUAL(graph.nodes(), uint64_t(4));
}

TB_CASE(GRA, 10, needs, "mem_set.2 mem_copy.6 graph_node_count.1",
        "arguments are checked while capturing, and what is refused is no node", .level = 4) {
  auto [api, self] = driver_of(kit);
  kit.graph();
  Block words(kit, 8);
  Stream stream(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, words.data(), 1);
  CHECK_STATUS(api.mem_set(self, 0, stream, words.data(), 1, 3, 1), TB_INVALID_ARGUMENT);
  CHECK_STATUS(api.mem_copy(self, 0, stream, words.data() + 4, words.data(), 4, 9), TB_INVALID_ARGUMENT);
  Graph graph(kit, stream);
  CHECK_EQUAL(graph.nodes(), uint64_t(1));
}

TB_CASE(GRA, 11, needs, "capture_begin.1 graph_launch.1",
        "streams that joined are part of the graph, in the order of the events", .level = 4) {
  kit.graph();
  Block words(kit, 16);
  words.fill(0);
  uint8_t *word = words.data();
  Stream stream(kit), left(kit), right(kit);
  begin_capture(kit, stream);
  set_word(kit, stream, word, 11);
  connect(kit, stream, left);
  connect(kit, stream, right);
  copy_word(kit, left, word + 4, word);
  connect(kit, left, right);
  copy_word(kit, right, word + 8, word + 4);
  connect(kit, right, stream);
  copy_word(kit, stream, word + 12, word + 8);
  Graph graph(kit, stream);
  CHECK_EQUAL(graph.nodes(), uint64_t(4));
  Executable executable(kit, graph);
  for (int round = 0; round < 10; ++round) {
    words.fill(0);
    executable.launch(right); // on any stream
    right.synchronize();
    CHECK(read_words(kit, word, 4) == std::vector<uint32_t>(4, 11));
  }
}

} // namespace
} // namespace tb::contract::graphs_cases
