// Cases about loading: the table, its growth in both directions, its groups, its texts.
#include <array>
#include <cstring>

#include "contract/run.h"
#include "contract/support/elf_symbols.h"
#include "slots/slots.h"

namespace tb::contract::abi_cases {

using device::driver_slot_count;
using device::groups_needed_by;
using device::Slot;
using device::slot_facts;
using device::slot_value;
using device::SlotFacts;
namespace {

constexpr uint8_t guard_byte = 0xA5;

// A table with room behind it, for a host that knows more or less than this one.
struct Room {
  tb_driver_api api;
  uint8_t behind[256];
  explicit Room(uint32_t size) {
    memset(static_cast<void *>(this), guard_byte, sizeof *this);
    memset(static_cast<void *>(&api), 0, size < sizeof api ? size : sizeof api);
    api.struct_size = size;
  }
  // Nothing from `size` on was written.
  bool untouched_from(size_t size) const {
    const auto *bytes = reinterpret_cast<const uint8_t *>(this);
    for (size_t i = size; i < sizeof *this; ++i)
      if (bytes[i] != guard_byte) return false;
    return true;
  }
};

bool is_text(const char *text, size_t room) {
  const size_t size = strnlen(text, room);
  if (size == room) return false;
  for (size_t i = 0; i < size;) { // UTF-8: a lead byte says how many follow
    const auto lead = static_cast<uint8_t>(text[i++]);
    int more = lead < 0x80                   ? 0
               : lead >= 0xC2 && lead < 0xE0 ? 1
               : lead >= 0xE0 && lead < 0xF0 ? 2
               : lead >= 0xF0 && lead < 0xF5 ? 3
                                             : -1;
    if (more < 0) return false;
    for (; more > 0; --more, ++i)
      if (i >= size || (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) return false;
  }
  return true;
}

// An info struct at the start of a room that shows how far it was written.
template <class Info, class Get> void check_growth(Kit &kit, Get get) {
  Info whole{};
  whole.struct_size = sizeof whole;
  CHECK_OK(get(&whole));
  alignas(Info) std::array<uint8_t, sizeof(Info) + 64> room;
  for (const size_t size : {sizeof(Info) / 2 / 4 * 4, sizeof(Info) - 4, sizeof(Info), sizeof(Info) + 32}) {
    room.fill(guard_byte);
    const auto given = static_cast<uint32_t>(size);
    memcpy(room.data(), &given, sizeof given);
    CHECK_OK(get(reinterpret_cast<Info *>(room.data())));
    const size_t known = size < sizeof(Info) ? size : sizeof(Info);
    CHECK(memcmp(room.data() + 4, reinterpret_cast<const uint8_t *>(&whole) + 4, known - 4) == 0);
    for (size_t i = size; i < room.size(); ++i) CHECK_EQUAL(room[i], guard_byte);
  }
}

} // namespace

TB_CASE(ABI, 01, TB_GROUP_CORE, "V2", "the table speaks this ABI and has its size") {
  CHECK_EQUAL(kit.api().abi_major, TB_ABI_MAJOR);
  CHECK_EQUAL(kit.api().struct_size, static_cast<uint32_t>(sizeof(tb_driver_api)));
  CHECK(kit.self() != nullptr);
}

TB_CASE(ABI, 02, TB_GROUP_CORE, "V4", "the library exports its entry and nothing else") {
  if (kit.target().library.empty()) throw NotOffered("part of tb_device, not a library of its own");
  for (const std::string &symbol : exported_symbols(kit.target().library)) {
    count_check();
    if (symbol != TB_DRIVER_ENTRY)
      throw Failed(kit.target().library + " exports " + symbol + ": hide it (-fvisibility=hidden, a version script)");
  }
}

TB_CASE(ABI, 03, TB_GROUP_CORE, "T4 close.1",
        "opening a second time gives a working second self, or says that it exists") {
  tb_driver_api api{};
  api.struct_size = sizeof api;
  tb_driver *self = nullptr;
  const tb_status status = kit.open_raw(Kit::host(), &api, &self);
  if (status != TB_OK) {
    kit.check_status(status, TB_ALREADY_EXISTS, "opening a second time", __FILE__, __LINE__);
    CHECK(self == nullptr);
    return kit.state("a second open is refused");
  }
  CHECK(self && self != kit.self());
  int32_t count = -1;
  CHECK_OK(api.device_count(self, &count));
  CHECK_EQUAL(count, kit.device_count());
  void *block = nullptr;
  CHECK_OK(api.mem_alloc(self, 0, 64, 0, &block));
  CHECK_OK(api.mem_free(self, 0, block));
  CHECK_OK(api.close(self));
  CHECK_EQUAL(kit.device_count(), count); // the first one lives on
  kit.state("a second open gives a second self");
}

TB_CASE(ABI, 04, TB_GROUP_CORE, "V2 V1", "a host that knows fewer functions gets no more than its table holds") {
  const std::array<size_t, 3> sizes = {offsetof(tb_driver_api, get_info), offsetof(tb_driver_api, device_synchronize),
                                       offsetof(tb_driver_api, mem_alloc_host)};
  for (const size_t size : sizes) {
    Room room(static_cast<uint32_t>(size));
    tb_driver *self = nullptr;
    CHECK_OK(kit.open_raw(Kit::host(), &room.api, &self));
    CHECK_EQUAL(room.api.struct_size, static_cast<uint32_t>(size));
    CHECK(room.untouched_from(size));
    CHECK_OK(room.api.close(self));
  }
}

TB_CASE(ABI, 05, TB_GROUP_CORE, "V2", "a host that knows more functions finds the rest of its table untouched") {
  Room room(sizeof(tb_driver_api) + 128);
  tb_driver *self = nullptr;
  CHECK_OK(kit.open_raw(Kit::host(), &room.api, &self));
  CHECK_EQUAL(room.api.struct_size, static_cast<uint32_t>(sizeof(tb_driver_api) + 128));
  CHECK(room.untouched_from(sizeof(tb_driver_api)));
  CHECK_OK(room.api.close(self));
}

TB_CASE(ABI, 06, TB_GROUP_CORE, "V3", "a group that the bits offer has all its functions") {
  CHECK(kit.api().groups & TB_GROUP_CORE);
  for (int i = 0; i < driver_slot_count; ++i) {
    const SlotFacts &slot = slot_facts[i];
    if (!(kit.api().groups & slot.group_bit) || !slot.required) continue;
    if (!slot_value(kit.api(), static_cast<Slot>(i)))
      throw Failed(std::string("groups has TB_GROUP_") + slot.group + ", but " + slot.name + " is NULL");
    count_check();
  }
}

TB_CASE(ABI, 07, TB_GROUP_CORE, "V3", "a group that the bits do not offer has no function, and needs none of another") {
  for (int i = 0; i < driver_slot_count; ++i) {
    const SlotFacts &slot = slot_facts[i];
    count_check();
    if (kit.api().groups & slot.group_bit) {
      const uint64_t lacking = groups_needed_by(slot.group_bit) & ~kit.api().groups;
      if (lacking) throw Failed(std::string("group ") + slot.group + " needs group " + group_names(lacking));
    } else if (slot_value(kit.api(), static_cast<Slot>(i))) {
      throw Failed(std::string(slot.name) + " is there, but groups lacks TB_GROUP_" + slot.group);
    }
  }
}

TB_CASE(ABI, 08, TB_GROUP_CORE, "V5", "build_id says what was built") {
  CHECK(kit.api().build_id != nullptr);
  CHECK(*kit.api().build_id != 0);
}

TB_CASE(ABI, 09, TB_GROUP_CORE, "V2",
        "info structs of a smaller and a larger size are filled as far as both know them") {
  check_growth<tb_driver_info>(kit, [&](tb_driver_info *out) { return kit.api().get_info(kit.self(), out); });
  check_growth<tb_device_info>(kit, [&](tb_device_info *out) { return kit.api().device_get_info(kit.self(), 0, out); });
}

TB_CASE(ABI, 10, TB_GROUP_CORE, "get_info.1 get_info.2",
        "texts end within their fields, are UTF-8, and the name is not empty") {
  tb_driver_info info;
  memset(&info, 'x', sizeof info); // a text that the driver does not end shows
  info.struct_size = sizeof info;
  CHECK_OK(kit.api().get_info(kit.self(), &info));
  CHECK(is_text(info.name, sizeof info.name));
  CHECK(info.name[0] != 0);
  CHECK(is_text(info.vendor, sizeof info.vendor));
  CHECK(is_text(info.version, sizeof info.version));
  CHECK(is_text(info.native, sizeof info.native));
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    tb_device_info one;
    memset(&one, 'x', sizeof one);
    one.struct_size = sizeof one;
    CHECK_OK(kit.api().device_get_info(kit.self(), device, &one));
    CHECK(is_text(one.name, sizeof one.name));
    CHECK(is_text(one.arch, sizeof one.arch));
  }
}

TB_CASE(ABI, 11, TB_GROUP_CORE, "V1 V2", "a newer host of the same major is served") {
  struct Newer {
    tb_host known;
    void *unknown[8];
  } newer{*Kit::host(), {}};
  newer.known.struct_size = sizeof newer;
  newer.known.abi_minor = 999;
  tb_driver_api api{};
  api.struct_size = sizeof api;
  tb_driver *self = nullptr;
  CHECK_OK(kit.open_raw(&newer.known, &api, &self));
  int32_t count = -1;
  CHECK_OK(api.device_count(self, &count));
  CHECK_OK(api.close(self));
}

TB_CASE(ABI, 12, TB_GROUP_CORE, "get_extension.1 get_extension.2",
        "an unknown extension or version is not found, the table untouched") {
  kit.need(kit.api().get_extension, "get_extension");
  struct Asked {
    const char *name;
    uint32_t version;
  };
  for (const Asked &asked : {Asked{"tb.no_such_extension", 1}, Asked{"", 1}, Asked{TB_GRAPH_EXTENSION, 999999}}) {
    std::array<uint8_t, 1024> table;
    table.fill(guard_byte);
    CHECK_STATUS(kit.api().get_extension(kit.self(), asked.name, asked.version, table.data(), table.size()),
                 TB_NOT_FOUND);
    for (const uint8_t byte : table) CHECK_EQUAL(byte, guard_byte);
  }
  try {
    (void)kit.graph();
  } catch (const NotOffered &) {
    return;
  }
  Room small(offsetof(tb_graph_api, capture_end));
  auto *table = reinterpret_cast<tb_graph_api *>(&small);
  CHECK_OK(kit.api().get_extension(kit.self(), TB_GRAPH_EXTENSION, TB_GRAPH_VERSION, table, table->struct_size));
  CHECK(small.untouched_from(offsetof(tb_graph_api, capture_end)));
}

TB_CASE(ABI, 13, TB_GROUP_CORE, "E1 E2 V2",
        "a table without room for its own head is refused, and nothing is written") {
  Room room(4);
  tb_driver *self = nullptr;
  CHECK_STATUS(kit.open_raw(Kit::host(), &room.api, &self), TB_ABI_MISMATCH);
  CHECK(self == nullptr);
  CHECK(room.untouched_from(4));
}

} // namespace tb::contract::abi_cases
