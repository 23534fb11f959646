// Memory and events between processes: each case spawns this program again as the other process.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#define TB_TEST_OWN_MAIN
#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;

namespace {

constexpr uint64_t mi_b = uint64_t(1) << 20;

// A child process that runs the role `name` of roles() and exchanges bytes with this one over its standard streams.
class Peer {
public:
  explicit Peer(const char *name) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) { // only system calls until exec, because another thread may have held any lock
      dup2(to[0], 0);
      dup2(from[1], 3);
      execl("/proc/self/exe", "test_ipc", "--role", name, nullptr);
      _exit(127);
    }
    ::close(to[0]), ::close(from[1]);
    to_ = to[1], from_ = from[0];
  }
  ~Peer() {
    ::close(to_), ::close(from_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  template <class Value> void send(const Value &value) {
    if (write(to_, &value, sizeof value) != sizeof value) throw std::runtime_error("the peer has ended");
  }
  template <class Value> Value receive() {
    Value value;
    if (read(from_, &value, sizeof value) != sizeof value) throw std::runtime_error("the peer has ended");
    return value;
  }
  void kill_it() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  bool ended_well() {
    ::close(to_), to_ = -1;
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

private:
  pid_t pid_;
  int to_, from_;
};

// ---- in the child ----

template <class Value> void tell(const Value &value) {
  if (write(3, &value, sizeof value) != sizeof value) throw std::runtime_error("the parent has ended");
}
template <class Value> Value hear() {
  Value value;
  if (read(0, &value, sizeof value) != sizeof value) throw std::runtime_error("the parent has ended");
  return value;
}

tb_ipc_handle empty_handle() {
  tb_ipc_handle handle = {};
  handle.struct_size = sizeof handle;
  return handle;
}

// Imports memory, tells what it reads, and writes.
void role_importer() {
  OpenedDriver driver;
  const auto handle = hear<tb_ipc_handle>();
  void *data = nullptr;
  tell(driver.api.ipc_import_memory(driver.self, 0, &handle, &data));
  auto *bytes = static_cast<uint8_t *>(data);
  tb_pointer_info info = {};
  info.struct_size = sizeof info;
  driver.api.mem_get_info(driver.self, bytes, &info);
  tell(info.size);
  tell(bytes[0]);
  tell(bytes[info.size - 1]);
  bytes[0] = 77;
  tell(true);
  hear<bool>();   // the owner has freed the memory
  tell(bytes[0]); // it is still there
  bytes[info.size - 1] = 78;
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.close(driver.self), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.ipc_close_memory(driver.self, data), TB_OK);
  CHECK_EQUAL(driver.api.ipc_close_memory(driver.self, data), TB_INVALID_ARGUMENT);
}

// Exports a block and an event with a pending record, and waits to be killed.
void role_exporter() {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto *data = static_cast<uint8_t *>(driver.allocate(5000));
  std::memset(data, 5, 5000);
  tb_ipc_handle handle = empty_handle();
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &handle), TB_OK);
  tell(handle);
  tb_event *event = driver.create_event(TB_EVENT_IPC);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  CHECK_EQUAL(driver.api.ipc_export_event(driver.self, event, &handle), TB_OK);
  tell(handle);
  hear<bool>();
}

// Imports an event and answers questions about it, one letter each.
void role_watcher() {
  OpenedDriver driver;
  const auto handle = hear<tb_ipc_handle>();
  tb_event *event = nullptr;
  CHECK_EQUAL(driver.api.ipc_import_event(driver.self, 0, &handle, &event), TB_OK);
  tb_stream *stream = driver.create_stream();
  int turns = 0;
  for (;;) {
    const char question = hear<char>();
    if (question == 'q') tell(driver.api.event_query(driver.self, event));
    if (question == 's') tell(driver.api.event_synchronize(driver.self, event));
    if (question == 'w') {
      CHECK_EQUAL(driver.api.stream_wait_event(driver.self, stream, event), TB_OK);
      driver.submit(stream, [&turns] { ++turns; });
      tell(driver.api.stream_query(driver.self, stream));
    }
    if (question == 'f') {
      tell(driver.api.stream_synchronize(driver.self, stream));
      tell(turns);
    }
    if (question == 'e') break;
  }
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
}

int run_role(const std::string &name) {
  try {
    name == "importer" ? role_importer() : name == "exporter" ? role_exporter() : role_watcher();
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "role %s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

} // namespace

CASE(memory_of_every_size_is_the_same_in_both_processes_and_outlives_its_owners_free) {
  OpenedDriver driver;
  for (const uint64_t size : {uint64_t(1), uint64_t(100), uint64_t(5000), 2 * mi_b, 5 * mi_b + 3}) {
    void *neighbours[] = {driver.allocate(64), nullptr, driver.allocate(64)};
    auto *data = static_cast<uint8_t *>(driver.allocate(size));
    neighbours[1] = driver.allocate(64);
    for (void *one : neighbours) std::memset(one, 3, 64);
    std::memset(data, 11, size);
    data[0] = 10;
    tb_ipc_handle handle = empty_handle(), again = empty_handle();
    CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &handle), TB_OK);
    CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &again), TB_OK);
    CHECK_EQUAL(std::memcmp(&handle, &again, sizeof handle), 0);
    CHECK_EQUAL(data[0], 10);
    Peer peer("importer");
    peer.send(handle);
    CHECK_EQUAL(peer.receive<tb_status>(), TB_OK);
    CHECK_EQUAL(peer.receive<uint64_t>(), size);
    CHECK_EQUAL(peer.receive<uint8_t>(), 10);
    CHECK_EQUAL(peer.receive<uint8_t>(), size > 1 ? 11 : 10);
    CHECK(peer.receive<bool>());
    CHECK_EQUAL(data[0], 77);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
    auto *reused = static_cast<uint8_t *>(driver.allocate(size)); // must be other memory, also at the same address
    std::memset(reused, 22, size);
    void *out = nullptr;
    CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &handle, &out), TB_NOT_FOUND); // already freed
    peer.send(true);
    CHECK_EQUAL(peer.receive<uint8_t>(), 77);
    CHECK(peer.ended_well());
    CHECK_EQUAL(reused[size - 1], 22);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, reused), TB_OK);
    for (void *one : neighbours) {
      CHECK_EQUAL(static_cast<char *>(one)[63], 3);
      CHECK_EQUAL(driver.api.mem_free(driver.self, 0, one), TB_OK);
    }
  }
}

CASE(an_export_loses_no_write_of_work_that_runs_meanwhile) {
  OpenedDriver driver;
  constexpr uint64_t words = 32 * mi_b / sizeof(uint64_t), step = 4096 / sizeof(uint64_t);
  for (int round = 0; round < 3; ++round) {
    auto *data = static_cast<uint64_t *>(driver.allocate(words * sizeof(uint64_t)));
    std::atomic<bool> begun{false}, end{false};
    uint64_t turns = 0;
    // Each word counts the turns. A write to a page that the export has replaced would be lost, and its word too low.
    driver.submit(driver.default_stream(), [&] {
      for (; !end.load() || turns < 3; ++turns, begun.store(true))
        for (uint64_t word = 0; word < words; word += step)
          *static_cast<volatile uint64_t *>(data + word) = data[word] + 1;
    });
    while (!begun.load()) std::this_thread::yield();
    tb_ipc_handle handle = empty_handle();
    CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &handle), TB_OK);
    end.store(true);
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, driver.default_stream()), TB_OK);
    uint64_t behind = 0;
    for (uint64_t word = 0; word < words; word += step) behind += data[word] != turns;
    CHECK_EQUAL(behind, 0u);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
  }
}

CASE(the_exporting_process_may_import_its_own_memory_as_a_second_address) {
  OpenedDriver driver;
  auto *data = static_cast<uint8_t *>(driver.allocate(3 * mi_b));
  tb_ipc_handle handle = empty_handle();
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &handle), TB_OK);
  void *alias = nullptr;
  CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &handle, &alias), TB_OK);
  CHECK(alias != data);
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(alias) % (2 * mi_b), 0u);
  data[3 * mi_b - 1] = 99;
  CHECK_EQUAL(static_cast<uint8_t *>(alias)[3 * mi_b - 1], 99);
  CHECK_EQUAL(driver.api.ipc_close_memory(driver.self, alias), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
}

CASE(invalid_exports_and_imports_are_refused) {
  OpenedDriver driver;
  auto *data = static_cast<uint8_t *>(driver.allocate(100));
  tb_event *plain = driver.create_event(), *shared = driver.create_event(TB_EVENT_IPC), *event = nullptr;
  void *pinned = nullptr, *out = nullptr;
  driver.api.mem_alloc_host(driver.self, 0, 64, 0, &pinned);
  tb_ipc_handle handle = empty_handle(), untouched = handle;
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data + 1, &handle), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, pinned, &handle), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, &handle, &handle), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.ipc_export_event(driver.self, plain, &handle), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(std::memcmp(&handle, &untouched, sizeof handle), 0);
  CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &handle, &out), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.ipc_export_memory(driver.self, data, &handle), TB_OK);
  CHECK_EQUAL(driver.api.ipc_import_event(driver.self, 0, &handle, &event), TB_INVALID_ARGUMENT); // a memory handle
  for (size_t place = 0; place < sizeof handle.bytes; ++place) {
    tb_ipc_handle forged = handle;
    forged.bytes[place] ^= 0x10;
    CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &forged, &out), TB_INVALID_ARGUMENT);
  }
  CHECK(!out && !event);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
  for (tb_event *one : {plain, shared}) CHECK_EQUAL(driver.api.event_destroy(driver.self, one), TB_OK);
}

CASE(the_other_process_sees_every_record_of_an_event) {
  OpenedDriver driver;
  tb_stream *stream = driver.create_stream(), *second = driver.create_stream();
  tb_event *event = driver.create_event(TB_EVENT_IPC);
  tb_ipc_handle handle = empty_handle();
  CHECK_EQUAL(driver.api.ipc_export_event(driver.self, event, &handle), TB_OK);
  Peer peer("watcher");
  peer.send(handle);
  const auto ask = [&](char question) {
    peer.send(question);
    return peer.receive<tb_status>();
  };
  CHECK_EQUAL(ask('q'), TB_OK); // the event was never recorded
  CHECK_EQUAL(ask('s'), TB_OK);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  CHECK_EQUAL(ask('q'), TB_NOT_READY);
  CHECK_EQUAL(ask('w'), TB_NOT_READY);
  // A later record on a faster stream replaces the event's point, and a wait that was made before still waits.
  CHECK_EQUAL(driver.api.event_record(driver.self, event, second), TB_OK);
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(ask('q'), TB_OK);
  peer.send('f');
  driver.submit(stream, [] {});
  gate.open();
  CHECK_EQUAL(peer.receive<tb_status>(), TB_OK);
  CHECK_EQUAL(peer.receive<int>(), 1);
  for (int turn = 0; turn < 600; ++turn) { // more records than may be pending
    tb_status status = TB_UNAVAILABLE;
    while (status == TB_UNAVAILABLE) status = driver.api.event_record(driver.self, event, second);
    CHECK_EQUAL(status, TB_OK);
  }
  CHECK_EQUAL(ask('s'), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(ask('q'), TB_OK);
  peer.send('e');
  CHECK(peer.ended_well());
  for (tb_stream *one : {stream, second}) CHECK_EQUAL(driver.api.stream_destroy(driver.self, one), TB_OK);
}

CASE(too_many_pending_records_are_refused) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  tb_event *event = driver.create_event(TB_EVENT_IPC);
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  int accepted = 0;
  while (driver.api.event_record(driver.self, event, stream) == TB_OK) ++accepted;
  CHECK_EQUAL(accepted, 256);
  CHECK(test::take_error().find("pending") != std::string::npos);
  gate.open();
  CHECK_EQUAL(driver.api.event_synchronize(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.event_record(driver.self, event, stream), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

CASE(the_death_of_the_owner_is_data_loss_and_never_a_hang) {
  OpenedDriver driver;
  Peer peer("exporter");
  const auto memory = peer.receive<tb_ipc_handle>(), pending = peer.receive<tb_ipc_handle>();
  void *data = nullptr, *late = nullptr;
  tb_event *event = nullptr, *late_event = nullptr;
  tb_stream *stream = driver.default_stream();
  CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &memory, &data), TB_OK);
  CHECK_EQUAL(driver.api.ipc_import_event(driver.self, 0, &pending, &event), TB_OK);
  CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_NOT_READY);
  CHECK_EQUAL(driver.api.stream_wait_event(driver.self, stream, event), TB_OK);
  std::atomic<tb_status> waited{TB_OK};
  std::thread waiter([&] { waited = driver.api.event_synchronize(driver.self, event); });
  peer.kill_it();
  waiter.join();
  CHECK_EQUAL(waited.load(), TB_DATA_LOSS);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_DATA_LOSS);
  CHECK(test::take_error().find("stream_wait_event: the process") != std::string::npos);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.event_query(driver.self, event), TB_DATA_LOSS);
  CHECK_EQUAL(static_cast<uint8_t *>(data)[4999], 5); // the owner's death does not release the memory
  CHECK_EQUAL(driver.api.ipc_import_memory(driver.self, 0, &memory, &late), TB_DATA_LOSS);
  CHECK_EQUAL(driver.api.ipc_import_event(driver.self, 0, &pending, &late_event), TB_DATA_LOSS);
  CHECK(!late && !late_event);
  CHECK_EQUAL(driver.api.ipc_close_memory(driver.self, data), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
}

int main(int argument_count, char **arguments) {
  if (argument_count == 3 && std::strcmp(arguments[1], "--role") == 0) return run_role(arguments[2]);
  if (!(OpenedDriver().api.groups & TB_GROUP_IPC)) {
    std::fprintf(stderr, "skipped: the system forbids userfaultfd here, so the CPU driver has no IPC\n");
    return 77; // meson reports 77 as skipped
  }
  std::signal(SIGPIPE, SIG_IGN); // write then fails if the peer has died
  return check::main(argument_count, arguments);
}
