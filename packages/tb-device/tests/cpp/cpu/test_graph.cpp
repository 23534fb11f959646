// The extension tb.graph: capture, replay, forks and joins, update, failures.
#include <cstring>
#include <memory>
#include <vector>

#include "tb/graph.h"
#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::Options;

namespace {

struct GraphDriver : test::OpenedDriver {
  tb_graph_api graph = {};
  explicit GraphDriver(Options options = {}) : OpenedDriver(std::move(options)) {
    if (api.get_extension(self, TB_GRAPH_EXTENSION, TB_GRAPH_VERSION, &graph, sizeof graph))
      throw std::runtime_error(test::take_error());
  }
  void begin(tb_stream *stream) {
    if (graph.capture_begin(self, stream, 0)) throw std::runtime_error(test::take_error());
  }
  tb_graph *end(tb_stream *stream) {
    tb_graph *captured = nullptr;
    if (graph.capture_end(self, stream, &captured)) throw std::runtime_error(test::take_error());
    return captured;
  }
  tb_graph_exec *instantiate(tb_graph *captured) {
    tb_graph_exec *executable = nullptr;
    if (graph.graph_instantiate(self, captured, 0, &executable)) throw std::runtime_error(test::take_error());
    return executable;
  }
  uint64_t count(tb_graph *captured) {
    uint64_t nodes = 0;
    if (graph.graph_node_count(self, captured, &nodes)) throw std::runtime_error(test::take_error());
    return nodes;
  }
  void synchronize(tb_stream *stream) {
    if (api.stream_synchronize(self, stream)) throw std::runtime_error(test::take_error());
  }
  void destroy(tb_stream *stream) {
    if (api.stream_destroy(self, stream)) throw std::runtime_error(test::take_error());
  }
};

} // namespace

CASE(every_kind_of_work_is_captured_not_run_and_replayed_with_the_memory_of_the_moment) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream();
  auto *data = static_cast<uint8_t *>(driver.allocate(256));
  std::memset(data, 9, 256);
  int calls = 0, runs = 0, before = 0;
  test::Gate gate;
  driver.submit(stream, [&] { gate.pass(), ++before; }); // queued before the capture, so not part of it
  driver.begin(stream);
  CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, data, 1, 1, 16), TB_OK);
  CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, data + 64, data, 16, TB_COPY_DEVICE_TO_DEVICE), TB_OK);
  CHECK_EQUAL(driver.api.peer_copy(driver.self, stream, data + 128, 0, data + 200, 0, 8), TB_OK);
  const tb_copy_2d rows = {sizeof(tb_copy_2d), TB_COPY_DEVICE_TO_DEVICE, data + 160, data, 8, 4, 4, 2};
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &rows), TB_OK);
  CHECK_EQUAL(driver.api.stream_host_call(
                  driver.self, stream, [](void *user, tb_status) { ++*static_cast<int *>(user); }, &calls),
              TB_OK);
  driver.submit(stream, [&runs] { ++runs; });
  tb_graph *graph = driver.end(stream);
  CHECK_EQUAL(driver.count(graph), 6u);
  gate.open();
  driver.synchronize(stream);
  CHECK_EQUAL(before, 1);
  CHECK_EQUAL(runs + calls, 0);
  CHECK_EQUAL(data[0], 9);
  tb_graph_exec *executable = driver.instantiate(graph);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK); // the executable stays valid
  for (int turn = 1; turn <= 3; ++turn) {
    std::memset(data + 200, turn, 8); // each replay reads the memory behind captured pointers again
    CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
    driver.synchronize(stream);
    CHECK_EQUAL(runs, turn);
    CHECK_EQUAL(calls, turn);
    CHECK_EQUAL(data[0], 1);
    CHECK_EQUAL(data[79], 1);
    CHECK_EQUAL(data[80], 9);
    CHECK_EQUAL(data[128], turn);
    CHECK_EQUAL(data[171], 1);
    CHECK_EQUAL(data[164], 9); // the padding between rows is unchanged
    std::memset(data, 9, 200);
  }
  CHECK_EQUAL(before, 1);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
  driver.destroy(stream);
}

CASE(captured_work_sees_what_the_graph_runs_behind_it) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream();
  std::vector<int> behind;
  const auto look = [&behind](const tb_closure_context *context) {
    behind.push_back(test::count_behind(context));
    return static_cast<tb_status>(TB_OK);
  };
  driver.begin(stream);
  for (int i = 0; i < 3; ++i) driver.submit(stream, look);
  tb_graph *graph = driver.end(stream);
  tb_graph_exec *executable = driver.instantiate(graph);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  for (int turn = 0; turn < 2; ++turn) CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
  driver.submit(stream, look);
  gate.open();
  driver.synchronize(stream);
  CHECK(behind == std::vector<int>({2, 1, 0, 2, 1, 0, 0}));
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  driver.destroy(stream);
}

CASE(closures_run_once_a_launch_and_are_destroyed_once_with_their_last_holder) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream();
  const auto alive = std::make_shared<int>(0);
  driver.begin(stream);
  driver.submit(stream, [alive] { ++*alive; });
  void *storage = nullptr;
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, 100000, &storage), TB_OK);
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(storage) % TB_CLOSURE_ALIGNMENT, 0u);
  tb_graph *graph = nullptr;
  CHECK_EQUAL(driver.graph.capture_end(driver.self, stream, &graph), TB_FAILED_PRECONDITION); // a reserve is open
  CHECK(test::take_error().find("closure_reserve") != std::string::npos);
  CHECK_EQUAL(driver.api.closure_cancel(driver.self, stream, storage), TB_OK);
  CHECK_EQUAL(driver.api.closure_cancel(driver.self, stream, storage), TB_INVALID_ARGUMENT);
  graph = driver.end(stream);
  CHECK_EQUAL(driver.count(graph), 1u);
  tb_graph_exec *first = driver.instantiate(graph), *second = driver.instantiate(graph);
  CHECK_EQUAL(alive.use_count(), 2);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  for (tb_graph_exec *one : {first, second, first})
    CHECK_EQUAL(driver.graph.graph_launch(driver.self, one, stream), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  for (tb_graph_exec *one : {first, second})
    CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, one), TB_OK); // queued launches still complete
  CHECK_EQUAL(alive.use_count(), 2);
  gate.open();
  driver.synchronize(stream);
  CHECK_EQUAL(*alive, 3);
  CHECK_EQUAL(alive.use_count(), 1);
  driver.destroy(stream);
}

CASE(streams_fork_and_join_by_events_and_the_order_holds) {
  GraphDriver driver(Options{{"devices", "2"}});
  tb_stream *origin = driver.create_stream(), *side = driver.create_stream(1), *other = driver.create_stream();
  tb_event *event = driver.create_event(), *fresh = driver.create_event(TB_EVENT_TIMING);
  std::vector<int> order;
  int32_t active = -1, device = -1;
  driver.begin(origin);
  driver.submit(origin, [&order] { order.push_back(1); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, origin), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, side, fresh), TB_OK); // never recorded, so no wait
  CHECK_EQUAL(driver.graph.capture_is_active(driver.self, side, &active), TB_OK);
  CHECK_EQUAL(active, 0);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, side, event), TB_OK);
  CHECK_EQUAL(driver.graph.capture_is_active(driver.self, side, &active), TB_OK);
  CHECK_EQUAL(active, 1);
  driver.submit(side, [&](const tb_closure_context *context) {
    order.push_back(2), device = context->device;
    return static_cast<tb_status>(TB_OK);
  });
  tb_graph *graph = nullptr;
  // Only the stream that began the capture can end it.
  CHECK_EQUAL(driver.graph.capture_end(driver.self, side, &graph), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.event_record(driver.self, event, side), TB_OK);
  CHECK_EQUAL(driver.api.event_record(driver.self, fresh, side), TB_OK);
  CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, origin, event), TB_OK);
  driver.submit(origin, [&order] { order.push_back(3); });
  graph = driver.end(origin);
  CHECK_EQUAL(driver.count(graph), 3u);
  CHECK_EQUAL(driver.graph.capture_is_active(driver.self, side, &active), TB_OK);
  CHECK_EQUAL(active, 0);
  tb_graph_exec *executable = driver.instantiate(graph);
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, other), TB_OK);
  driver.synchronize(other);
  CHECK(order == (std::vector<int>{1, 2, 3}));
  CHECK_EQUAL(device, 1); // the captured stream's device, not that of the launch
  // The event was recorded in a capture that has ended.
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, other, event), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.event_record(driver.self, event, other), TB_OK);
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  for (tb_event *one : {event, fresh}) CHECK_EQUAL(driver.api.event_destroy(driver.self, one), TB_OK);
  for (tb_stream *one : {origin, side, other}) driver.destroy(one);
}

CASE(a_join_that_is_not_waited_for_drops_the_capture_also_through_a_third_stream) {
  GraphDriver driver;
  tb_stream *streams[3];
  for (tb_stream *&stream : streams) stream = driver.create_stream();
  tb_event *event = driver.create_event();
  const auto edge = [&](int from, int to) {
    CHECK_EQUAL(driver.api.event_record(driver.self, event, streams[from]), TB_OK);
    CHECK_EQUAL(driver.api.stream_wait_event(driver.self, streams[to], event), TB_OK);
  };
  const auto alive = std::make_shared<int>(0);
  tb_graph *graph = nullptr;
  for (int variant = 0; variant < 3; ++variant) {
    driver.begin(streams[0]);
    edge(0, 1), edge(1, 2);
    driver.submit(streams[2], [alive] {});
    if (variant == 0) edge(1, 0);             // nothing waits for the third stream
    if (variant == 1) edge(2, 1), edge(1, 0); // the origin waits for the third through the second
    if (variant == 2) {
      edge(2, 1), edge(1, 0);
      driver.submit(streams[2], [] {}); // queued after the record that is waited for
    }
    const tb_status status = driver.graph.capture_end(driver.self, streams[0], &graph);
    CHECK_EQUAL(status, variant == 1 ? TB_OK : TB_FAILED_PRECONDITION);
    if (status == TB_OK) CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
    CHECK_EQUAL(alive.use_count(), 1);
    for (tb_stream *stream : streams) CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_OK);
  }
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *stream : streams) driver.destroy(stream);
}

CASE(calls_that_a_capture_forbids_are_refused_and_the_capture_goes_on) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream(), *second = driver.create_stream();
  tb_event *event = driver.create_event();
  tb_graph *graph = nullptr;
  CHECK_EQUAL(driver.graph.capture_begin(driver.self, driver.default_stream(), 0), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.graph.capture_begin(driver.self, stream, 1), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.graph.capture_end(driver.self, stream, &graph), TB_FAILED_PRECONDITION);
  driver.begin(stream);
  CHECK_EQUAL(driver.graph.capture_begin(driver.self, stream, 0), TB_FAILED_PRECONDITION);
  for (tb_status status :
       {driver.api.stream_query(driver.self, stream), driver.api.stream_synchronize(driver.self, stream),
        driver.api.device_synchronize(driver.self, 0), driver.api.stream_destroy(driver.self, stream)})
    CHECK_EQUAL(status, TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("capture") != std::string::npos);
  void *block = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_async(driver.self, stream, 64, 0, &block), TB_UNSUPPORTED);
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, driver.default_stream(), event), TB_FAILED_PRECONDITION);
  driver.begin(second);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, second, event), TB_FAILED_PRECONDITION); // of another capture
  graph = driver.end(second);
  tb_graph_exec *executable = driver.instantiate(graph);
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_UNSUPPORTED);
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, second), TB_OK); // an empty graph
  driver.synchronize(second);
  CHECK_EQUAL(driver.api.close(driver.self), TB_FAILED_PRECONDITION);
  CHECK(test::take_error().find("2 graphs") != std::string::npos);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, driver.end(stream)), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *one : {stream, second}) driver.destroy(one);
}

CASE(a_wait_for_work_outside_holds_back_each_launch_until_then) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream(), *outside = driver.create_stream();
  tb_event *event = driver.create_event();
  test::Gate gate;
  int produced = 0, seen = -1;
  driver.submit(outside, [&] { gate.pass(), produced = 1; });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, outside), TB_OK);
  driver.begin(stream);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, stream, event), TB_OK);
  driver.submit(stream, [&] { seen = produced; });
  tb_graph *graph = driver.end(stream);
  CHECK_EQUAL(driver.count(graph), 1u);
  tb_graph_exec *executable = driver.instantiate(graph);
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_query(driver.self, stream), TB_NOT_READY);
  gate.open();
  driver.synchronize(stream);
  CHECK_EQUAL(seen, 1);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  for (tb_stream *one : {stream, outside}) driver.destroy(one);
}

CASE(an_update_is_used_from_the_next_launch_and_other_shapes_are_refused) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream();
  auto *data = static_cast<uint8_t *>(driver.allocate(16));
  const auto capture = [&](int value, int sets) {
    driver.begin(stream);
    for (int set = 0; set < sets; ++set) driver.api.mem_set(driver.self, 0, stream, data, value, 1, 16);
    return driver.end(stream);
  };
  tb_graph *one = capture(1, 1), *two = capture(2, 1), *longer = capture(3, 2);
  driver.begin(stream);
  driver.api.mem_copy(driver.self, 0, stream, data, data + 8, 8, TB_COPY_DEVICE_TO_DEVICE);
  tb_graph *copies = driver.end(stream);
  tb_graph_exec *executable = driver.instantiate(one);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  int queued = 0, updated = 0;
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
  driver.submit(stream, [&] { queued = data[0]; });
  CHECK_EQUAL(driver.graph.graph_update(driver.self, executable, two), TB_OK);
  CHECK_EQUAL(driver.graph.graph_update(driver.self, executable, longer), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.graph.graph_update(driver.self, executable, copies), TB_FAILED_PRECONDITION);
  const std::string text = test::take_error();
  CHECK(text.find("mem_set") != std::string::npos && text.find("mem_copy") != std::string::npos);
  for (tb_graph *graph : {one, two, longer, copies}) CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
  driver.submit(stream, [&] { updated = data[0]; });
  gate.open();
  driver.synchronize(stream);
  CHECK_EQUAL(queued, 1);
  CHECK_EQUAL(updated, 2);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
  driver.destroy(stream);
}

CASE(launches_on_several_streams_never_overlap) {
  GraphDriver driver;
  tb_stream *streams[4];
  for (tb_stream *&stream : streams) stream = driver.create_stream();
  int inside = 0, most = 0, total = 0; // not atomic, so that the thread sanitizer checks that they are guarded
  driver.begin(streams[0]);
  driver.submit(streams[0], [&] { most = std::max(most, ++inside); });
  driver.submit(streams[0], [&] { ++total; });
  driver.submit(streams[0], [&] { --inside; });
  tb_graph *graph = driver.end(streams[0]);
  tb_graph_exec *executables[] = {driver.instantiate(graph), driver.instantiate(graph)};
  for (int turn = 0; turn < 400; ++turn)
    CHECK_EQUAL(driver.graph.graph_launch(driver.self, executables[turn % 2], streams[turn % 4]), TB_OK);
  for (tb_stream *stream : streams) driver.synchronize(stream);
  CHECK_EQUAL(total, 400);
  CHECK_EQUAL(most, 1);
  for (tb_graph_exec *one : executables) CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, one), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  for (tb_stream *stream : streams) driver.destroy(stream);
}

CASE(a_failing_node_is_reported_once_a_launch_with_its_own_name_and_leaves_out_those_behind_it) {
  GraphDriver driver;
  tb_stream *stream = driver.create_stream();
  int ran = 0;
  bool fails = true;
  tb_status reported = TB_OK;
  driver.begin(stream);
  driver.submit(stream, [&fails]() -> void {
    if (fails) throw std::runtime_error("out of luck");
  });
  driver.api.stream_host_call(
      driver.self, stream, [](void *user, tb_status status) { *static_cast<tb_status *>(user) = status; }, &reported);
  driver.submit(stream, [&ran] { ++ran; });
  tb_graph *graph = driver.end(stream);
  tb_graph_exec *executable = driver.instantiate(graph);
  for (int turn = 1; turn <= 2; ++turn) {
    CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_UNKNOWN);
    CHECK(test::take_error() == "test: out of luck");
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK_EQUAL(ran, 0);
    CHECK_EQUAL(reported, TB_UNKNOWN);
  }
  fails = false;
  CHECK_EQUAL(driver.graph.graph_launch(driver.self, executable, stream), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(ran, 1);
  CHECK_EQUAL(driver.graph.graph_exec_destroy(driver.self, executable), TB_OK);
  CHECK_EQUAL(driver.graph.graph_destroy(driver.self, graph), TB_OK);
  driver.destroy(stream);
}

CASE(the_extensions_table_follows_the_room_and_the_version) {
  test::OpenedDriver driver;
  tb_graph_api table;
  std::memset(&table, 0x77, sizeof table);
  const auto *bytes = reinterpret_cast<const unsigned char *>(&table);
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.graphs", 1, &table, sizeof table), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.graph", 2, &table, sizeof table), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.graph", 1, &table, 4), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.graph", 1, nullptr, sizeof table), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(bytes[0], 0x77);
  const uint32_t room = offsetof(tb_graph_api, capture_end);
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.graph", 1, &table, room), TB_OK);
  CHECK_EQUAL(table.struct_size, room);
  CHECK(table.capture_is_active != nullptr);
  for (uint32_t place = room; place < sizeof table; ++place) CHECK_EQUAL(bytes[place], 0x77);
}
