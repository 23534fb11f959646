// Every call is in the file, and the replay driver answers a program that makes the same calls.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "layers/trace/replay.h"
#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

namespace {

// A temporary file, removed by the destructor.
struct Recording {
  Recording() {
    const int file = mkstemp(path.data());
    if (file < 0) throw std::runtime_error("no temporary file");
    close_file(file);
  }
  ~Recording() { std::remove(path.c_str()); }
  static void close_file(int file) { fclose(fdopen(file, "r")); }
  std::vector<std::string> lines() const {
    std::ifstream file(path);
    std::vector<std::string> out;
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }
  std::string path = "/tmp/tb_trace_XXXXXX";
};

struct Table {
  tb_driver_api api{};
  tb_driver *self = nullptr;
};

// Runs a program on the table and gives the bytes that it computed.
std::vector<unsigned char> program(tb_driver_api &api, tb_driver *self, int32_t value = 5, uint64_t size = 64) {
  const auto good = [](tb_status status) {
    if (status != TB_OK) throw std::runtime_error("status " + std::to_string(status) + ": " + test::take_error());
  };
  void *block = nullptr;
  tb_stream *stream = nullptr;
  tb_event *event = nullptr;
  std::vector<unsigned char> host(size, static_cast<unsigned char>(value));
  good(api.mem_alloc(self, 0, size, 0, &block));
  good(api.stream_create(self, 0, 0, 0, &stream));
  good(api.event_create(self, 0, 0, &event));
  good(api.mem_copy(self, 0, stream, block, host.data(), size, TB_COPY_HOST_TO_DEVICE));
  good(api.mem_set(self, 0, stream, static_cast<char *>(block) + 8, 9, 1, 8));
  static const tb_closure closure = {
      sizeof(tb_closure), 0, "adds one to the first byte",
      [](void *storage, const tb_closure_context *) -> tb_status { return ++**static_cast<char **>(storage), TB_OK; },
      [](void *) {}};
  void *storage = nullptr;
  good(api.closure_reserve(self, stream, sizeof(char *), &storage));
  *static_cast<char **>(storage) = static_cast<char *>(block);
  good(api.closure_commit(self, stream, storage, &closure));
  good(api.mem_copy(self, 0, stream, host.data(), block, size, TB_COPY_DEVICE_TO_HOST));
  good(api.event_record(self, event, stream));
  good(api.event_synchronize(self, event));
  good(api.event_destroy(self, event));
  good(api.stream_destroy(self, stream));
  good(api.mem_free(self, 0, block));
  return host;
}

Table open_replay(const std::string &path) {
  Table table;
  test::option_values = {{"file", path}};
  table.api.struct_size = sizeof table.api;
  CHECK_EQUAL(tb_replay_driver_open_v1(&test::host(), &table.api, &table.self), TB_OK);
  return table;
}

std::string failure_of(auto &&body) {
  try {
    body();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

} // namespace

CASE(each_call_is_a_line_with_readable_arguments) {
  Recording recording;
  {
    test::LayeredDriver driver("trace:file=" + recording.path + ",bytes=2");
    (void)program(driver.api, driver.self);
    uint64_t free = 0, total = 0;
    CHECK_EQUAL(driver.api.device_memory_info(driver.self, 7, &free, &total), TB_OUT_OF_RANGE);
  }
  const auto lines = recording.lines();
  CHECK_EQUAL(lines.size(), 1u + 13u + 1u + 1u); // the header, 13 calls of the program, the failing call, close
  CHECK(has(lines[0], "\"trace\":1"));
  CHECK(has(lines[1],
            "{\"n\":1,\"thread\":1,\"call\":\"mem_alloc\",\"arguments\":{\"device\":0,\"size\":64,\"flags\":0},"
            "\"status\":0,"));
  CHECK(has(lines[1], "\"result\":{\"out\":\"#1\"}}"));
  CHECK(has(lines[4], "\"arguments\":{\"device\":0,\"stream\":\"#2\",\"dst\":\"#1+0\",\"src\":\"host\",\"size\":64,"
                      "\"kind\":1},\"data\":\"0505\","));
  CHECK(has(lines[5], "\"dst\":\"#1+8\",\"pattern\":9"));
  CHECK(has(lines[7], "\"closure\":\"adds one to the first byte\""));
  CHECK(has(lines[14], "\"call\":\"device_memory_info\",\"arguments\":{\"device\":7},\"status\":11,"));
  CHECK(has(lines[14], "\"result\":{}}"));
}

CASE(a_replay_computes_what_the_recorded_program_did) {
  Recording recording;
  std::vector<unsigned char> wanted;
  {
    test::LayeredDriver driver("trace:file=" + recording.path + ",bytes=64");
    wanted = program(driver.api, driver.self);
  }
  CHECK_EQUAL(int{wanted[0]}, 6);
  CHECK_EQUAL(int{wanted[8]}, 9);
  Table replay = open_replay(recording.path);
  tb_driver_info info{};
  info.struct_size = sizeof info;
  CHECK_EQUAL(replay.api.get_info(replay.self, &info), TB_OK);
  CHECK_EQUAL(std::string(info.name) == "cpu", true);
  CHECK(program(replay.api, replay.self) == wanted);
  CHECK_EQUAL(replay.api.close(replay.self), TB_OK);
}

CASE(a_replay_says_what_it_expected) {
  Recording recording;
  {
    test::LayeredDriver driver("trace:file=" + recording.path + ",bytes=4");
    (void)program(driver.api, driver.self);
  }
  {
    Table replay = open_replay(recording.path);
    const std::string reported = failure_of([&] { (void)program(replay.api, replay.self, 5, 65); });
    CHECK(has(reported, "expected call 1 was mem_alloc{\"device\":0,\"size\":64,\"flags\":0}, got "
                        "mem_alloc{\"device\":0,\"size\":65,\"flags\":0}"));
    int64_t out = 0;
    CHECK_REFUSED(replay.api.device_query(replay.self, 0, "x", &out), TB_DATA_LOSS, "expected call 1",
                  "later call was");
    CHECK_EQUAL(replay.api.close(replay.self), TB_OK);
  }
  {
    Table replay = open_replay(recording.path);
    const std::string reported = failure_of([&] { (void)program(replay.api, replay.self, 6); });
    CHECK(has(reported, "call 4, mem_copy"));
    CHECK(has(reported, "copied the data 05050505, got 06060606"));
    CHECK_EQUAL(replay.api.close(replay.self), TB_OK);
  }
  {
    Table replay = open_replay(recording.path);
    (void)program(replay.api, replay.self);
    void *more = nullptr;
    CHECK_REFUSED(replay.api.mem_alloc(replay.self, 0, 1, 0, &more), TB_DATA_LOSS,
                  "it has 13 calls, and this one more");
    CHECK_EQUAL(replay.api.close(replay.self), TB_OK);
  }
  Table replay = open_replay(recording.path);
  CHECK_REFUSED(replay.api.close(replay.self), TB_DATA_LOSS, "it ended where call 1 was mem_alloc");
  CHECK_EQUAL(replay.api.close(replay.self), TB_OK); // the difference was reported once
}

CASE(a_new_object_gets_a_new_number_also_at_the_address_of_an_old_one) {
  Recording recording;
  {
    test::LayeredDriver driver("trace:file=" + recording.path);
    for (int round = 0; round < 3; ++round)
      CHECK_EQUAL(driver.api.mem_free(driver.self, 0, driver.allocate(64)), TB_OK);
  }
  const auto lines = recording.lines();
  for (int round = 0; round < 3; ++round) {
    const std::string number = std::to_string(round + 1);
    CHECK(has(lines[static_cast<size_t>(1 + 2 * round)], ("\"out\":\"#" + number + "\"").c_str()));
    CHECK(has(lines[static_cast<size_t>(2 + 2 * round)], ("\"ptr\":\"#" + number + "+0\"").c_str()));
  }
}

CASE(a_recorded_failure_is_answered_as_one) {
  Recording recording;
  {
    test::LayeredDriver driver("trace:file=" + recording.path + ",fault:nth=0,status=14,slot=mem_alloc");
    void *out = nullptr;
    CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 8, 0, &out), TB_UNAVAILABLE);
  }
  Table replay = open_replay(recording.path);
  void *out = nullptr;
  CHECK_REFUSED(replay.api.mem_alloc(replay.self, 0, 8, 0, &out), TB_UNAVAILABLE, "call 1 failed so");
  CHECK(out == nullptr);
  CHECK_EQUAL(replay.api.close(replay.self), TB_OK);
}

CASE(a_file_that_is_no_trace_is_refused) {
  Table table;
  table.api.struct_size = sizeof table.api;
  for (const auto &[path, text] : {std::pair{"/nowhere/trace", "cannot read"}, {"/etc/hostname", "trace"}}) {
    test::option_values = {{"file", path}};
    CHECK_REFUSED(tb_replay_driver_open_v1(&test::host(), &table.api, &table.self), TB_INVALID_ARGUMENT, text);
  }
  test::option_values.clear();
  CHECK_REFUSED(tb_replay_driver_open_v1(&test::host(), &table.api, &table.self), TB_INVALID_ARGUMENT, "option file");
  std::string problem;
  test::OpenedDriver driver;
  CHECK(tb::layers::apply("trace:file=/nowhere/x", &test::host(), &driver.api, &driver.self, &problem) != TB_OK);
  CHECK(has(problem, "cannot write /nowhere/x"));
}
