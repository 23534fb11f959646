// IPC: memory and events of another process.
#include <algorithm>
#include <csignal>
#include <cstring>

#include "contract/child.h"
#include "contract/support/probe.h"

namespace tb::contract::ipc_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_IPC;
constexpr uint64_t block_bytes = 1 << 16;

// Handles are plain bytes: they travel as text.
std::string bytes_of(const tb_ipc_handle &handle) {
  return std::string(reinterpret_cast<const char *>(&handle), sizeof handle);
}

tb_ipc_handle handle_of(const std::string &bytes) {
  tb_ipc_handle handle{};
  std::memcpy(&handle, bytes.data(), std::min(bytes.size(), sizeof handle));
  return handle;
}

tb_ipc_handle empty_handle() {
  tb_ipc_handle handle{};
  handle.struct_size = sizeof handle;
  return handle;
}

tb_ipc_handle exported(Kit &kit, void *memory) {
  tb_ipc_handle handle = empty_handle();
  CHECK_OK(kit.api().ipc_export_memory(kit.self(), memory, &handle));
  return handle;
}

tb_ipc_handle exported(Kit &kit, tb_event *event) {
  tb_ipc_handle handle = empty_handle();
  CHECK_OK(kit.api().ipc_export_event(kit.self(), event, &handle));
  return handle;
}

class Imported {
public:
  Imported(Kit &kit, const tb_ipc_handle &handle) : kit_(kit) {
    CHECK_OK(kit.api().ipc_import_memory(kit.self(), 0, &handle, &memory_));
  }
  ~Imported() { kit_.api().ipc_close_memory(kit_.self(), memory_); }
  Imported(const Imported &) = delete;
  Imported &operator=(const Imported &) = delete;
  uint8_t *data() const { return static_cast<uint8_t *>(memory_); }

private:
  Kit &kit_;
  void *memory_ = nullptr;
};

void check_forged(Kit &kit, tb_status status) {
  CHECK_STATUS(status, status == TB_NOT_FOUND ? TB_NOT_FOUND : TB_INVALID_ARGUMENT);
}

// Sends what it reads in the memory of another process; then writes there; then closes it.
TB_CHILD(ipc_memory) {
  auto [api, self] = driver_of(kit);
  const tb_ipc_handle handle = handle_of(parent.receive());
  void *memory = nullptr;
  CHECK_OK(api.ipc_import_memory(self, 0, &handle, &memory));
  auto *bytes = static_cast<uint8_t *>(memory);
  parent.send(std::to_string(read_word(kit, bytes)) + " " + std::to_string(read_word(kit, bytes + block_bytes - 4)));
  CHECK_EQUAL(parent.receive(), std::string("write"));
  write_words(kit, bytes + 4, {1002});
  parent.send("written");
  CHECK_EQUAL(parent.receive(), std::string("read again"));
  parent.send(std::to_string(read_word(kit, bytes)));
  CHECK_OK(api.ipc_close_memory(self, memory));
}

TB_CASE(IPC, 01, needs, "ipc_export_memory.1 ipc_import_memory.1 ipc_close_memory.1",
        "another process sees the same memory, both ways") {
  Block block(kit, block_bytes);
  block.fill(0);
  write_words(kit, block.data(), {1001});
  write_words(kit, block.data() + block_bytes - 4, {1009});
  Child child(kit, "ipc_memory");
  child.send(bytes_of(exported(kit, block.data())));
  CHECK_EQUAL(child.receive(), std::string("1001 1009"));
  child.send("write");
  CHECK_EQUAL(child.receive(), std::string("written"));
  CHECK_EQUAL(read_word(kit, block.data() + 4), 1002u);
  write_words(kit, block.data(), {1003});
  child.send("read again");
  CHECK_EQUAL(child.receive(), std::string("1003"));
  child.finish();
  CHECK_EQUAL(read_word(kit, block.data()), 1003u); // closing there left it alone
}

TB_CASE(IPC, 02, needs, "ipc_import_memory.1",
        "importing in the exporting process is refused, or gives the same memory") {
  auto [api, self] = driver_of(kit);
  Block block(kit, block_bytes);
  write_words(kit, block.data(), {2});
  const tb_ipc_handle handle = exported(kit, block.data());
  void *memory = nullptr;
  const tb_status status = api.ipc_import_memory(self, 0, &handle, &memory);
  if (status != TB_OK) {
    CHECK_STATUS(status, status);
    CHECK(memory == nullptr);
    kit.state("a process does not import its own memory");
    return;
  }
  CHECK_EQUAL(read_word(kit, memory), 2u);
  write_words(kit, memory, {3});
  CHECK_EQUAL(read_word(kit, block.data()), 3u);
  CHECK_OK(api.ipc_close_memory(self, memory));
  CHECK_EQUAL(read_word(kit, block.data()), 3u);
  kit.state("a process imports its own memory");
}

TB_CASE(IPC, 03, needs, "ipc_close_memory.2", "closing what was not imported is refused") {
  auto [api, self] = driver_of(kit);
  Block block(kit, block_bytes);
  write_words(kit, block.data(), {3});
  check_forged(kit, api.ipc_close_memory(self, block.data()));
  int local = 0;
  check_forged(kit, api.ipc_close_memory(self, &local));
  CHECK_EQUAL(read_word(kit, block.data()), 3u);
}

// Exports memory, and frees it when asked.
TB_CHILD(ipc_owner) {
  Block block(kit, block_bytes);
  block.fill(0x44);
  parent.send(bytes_of(exported(kit, block.data())));
  parent.receive();
}

TB_CASE(IPC, 04, needs, "ipc_import_memory.3",
        "imported memory stays when its owner frees it, and when its owner is killed") {
  auto [api, self] = driver_of(kit);
  for (const bool killed : {false, true}) {
    Child owner(kit, "ipc_owner");
    const tb_ipc_handle handle = handle_of(owner.receive());
    const Imported memory(kit, handle);
    CHECK_EQUAL(read_word(kit, memory.data()), 0x44444444u);
    if (killed) {
      owner.signal(SIGKILL);
    } else {
      owner.send("free it");
      owner.finish();
    }
    CHECK_EQUAL(read_word(kit, memory.data() + block_bytes - 4), 0x44444444u);
    write_words(kit, memory.data(), {4});
    CHECK_EQUAL(read_word(kit, memory.data()), 4u);
  }
  // And when the owner ended before the import: a status of the list, no crash.
  Child owner(kit, "ipc_owner");
  const tb_ipc_handle handle = handle_of(owner.receive());
  owner.signal(SIGKILL);
  void *memory = nullptr;
  const tb_status status = api.ipc_import_memory(self, 0, &handle, &memory);
  if (status == TB_OK) {
    CHECK_EQUAL(read_word(kit, memory), 0x44444444u);
    CHECK_OK(api.ipc_close_memory(self, memory));
    kit.state("memory of a process that has ended can still be imported");
  } else {
    CHECK_STATUS(status, TB_DATA_LOSS);
    kit.state("memory of a process that has ended is lost");
  }
}

// Watches an event of another process.
TB_CHILD(ipc_event) {
  auto [api, self] = driver_of(kit);
  const tb_ipc_handle handle = handle_of(parent.receive());
  tb_event *event = nullptr;
  CHECK_OK(api.ipc_import_event(self, 0, &handle, &event));
  CHECK_OK(api.event_query(self, event));
  parent.send("complete");
  CHECK_EQUAL(parent.receive(), std::string("recorded"));
  CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
  {
    Block word(kit, 4);
    word.fill(0);
    Stream stream(kit);
    CHECK_OK(api.stream_wait_event(self, stream, event));
    set_word(kit, stream, word.data(), 5);
    check_held(kit, stream);
    CHECK_EQUAL(read_word(kit, word.data()), 0u);
    parent.send("held");
    CHECK_OK(api.event_synchronize(self, event));
    CHECK_OK(api.event_query(self, event));
    stream.synchronize();
    CHECK_EQUAL(read_word(kit, word.data()), 5u);
  }
  parent.send("passed");
  CHECK_OK(api.event_destroy(self, event));
}

TB_CASE(IPC, 05, needs, "ipc_import_event.1 ipc_export_event.1",
        "another process sees the records of an event, and waits for them") {
  auto [api, self] = driver_of(kit);
  Stream stream(kit);
  Event event(kit, TB_EVENT_IPC);
  Child child(kit, "ipc_event");
  child.send(bytes_of(exported(kit, event)));
  CHECK_EQUAL(child.receive(), std::string("complete"));
  Gate gate(kit, stream);
  CHECK_OK(api.event_record(self, event, stream)); // after the import
  CHECK_EQUAL(api.event_query(self, event), tb_status(TB_NOT_READY));
  child.send("recorded");
  CHECK_EQUAL(child.receive(), std::string("held"));
  gate.open();
  CHECK_EQUAL(child.receive(), std::string("passed"));
  child.finish();
  CHECK_OK(api.event_query(self, event));
}

TB_CASE(IPC, 06, needs, "ipc_import_memory.2 ipc_import_event.2 E1", "a handle that nobody exported is refused") {
  auto [api, self] = driver_of(kit);
  tb_ipc_handle blank = empty_handle(), noise = empty_handle();
  for (size_t i = 0; i < sizeof noise.bytes; ++i) noise.bytes[i] = static_cast<uint8_t>(37 * i + 11);
  for (const tb_ipc_handle *forged : {&blank, &noise}) {
    void *memory = nullptr;
    check_forged(kit, api.ipc_import_memory(self, 0, forged, &memory));
    CHECK(memory == nullptr);
    tb_event *event = nullptr;
    check_forged(kit, api.ipc_import_event(self, 0, forged, &event));
    CHECK(event == nullptr);
  }
  Event event(kit, TB_EVENT_IPC); // one kind's handle is not the other's
  const tb_ipc_handle handle = exported(kit, event);
  void *memory = nullptr;
  check_forged(kit, api.ipc_import_memory(self, 0, &handle, &memory));
}

TB_CASE(IPC, 07, needs, "ipc_export_event.1 E1", "an event made without the flag is not exported") {
  auto [api, self] = driver_of(kit);
  Event event(kit);
  tb_ipc_handle handle = empty_handle();
  CHECK_STATUS(api.ipc_export_event(self, event, &handle), TB_FAILED_PRECONDITION);
  for (const uint8_t byte : handle.bytes) CHECK_EQUAL(int(byte), 0);
}

TB_CASE(IPC, 08, needs, "ipc_export_memory.1 ipc_close_memory.1",
        "three processes share a block, and each closes its own") {
  Block block(kit, block_bytes);
  for (int round = 0; round < 2; ++round) {
    write_words(kit, block.data(), {8});
    write_words(kit, block.data() + block_bytes - 4, {9});
    const std::string handle = bytes_of(exported(kit, block.data()));
    Child first(kit, "ipc_memory"), second(kit, "ipc_memory");
    for (Child *child : {&first, &second}) {
      child->send(handle);
      CHECK_EQUAL(child->receive(), std::string("8 9"));
    }
    first.send("write");
    CHECK_EQUAL(first.receive(), std::string("written"));
    second.send("write");
    CHECK_EQUAL(second.receive(), std::string("written"));
    write_words(kit, block.data(), {88});
    first.send("read again");
    CHECK_EQUAL(first.receive(), std::string("88"));
    first.finish(); // it has closed the memory
    second.send("read again");
    CHECK_EQUAL(second.receive(), std::string("88"));
    second.finish();
    CHECK_EQUAL(read_word(kit, block.data() + 4), 1002u);
  }
}

} // namespace
} // namespace tb::contract::ipc_cases
