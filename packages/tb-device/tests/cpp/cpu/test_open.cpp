// Opening, options, the table, info structs, arguments out of range, close.
#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

CASE(the_table_offers_whole_groups_and_nothing_else) {
  OpenedDriver driver;
  CHECK(driver.api.build_id && *driver.api.build_id);
  CHECK_EQUAL(driver.api.abi_major, TB_ABI_MAJOR);
  const uint64_t offered = driver.api.groups;
  CHECK_EQUAL(offered | TB_GROUP_IPC, (uint64_t(TB_GROUP_CLOSURE) << 1) - 1); // all groups; IPC may be forbidden
  enum { REQUIRED = 1, OPTIONAL = 0 };
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (need || !(offered & TB_GROUP_##group)) CHECK((driver.api.name != nullptr) == bool(offered & TB_GROUP_##group));
#define TB_SLOT0(group, need, name) TB_SLOT(group, need, name, (), ())
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

CASE(a_host_that_knows_fewer_slots_is_not_written_past_its_table) {
  tb_driver_api api;
  std::memset(&api, 0x77, sizeof api);
  api.struct_size = offsetof(tb_driver_api, mem_alloc);
  tb_driver *self = nullptr;
  test::option_values.clear();
  CHECK_EQUAL(tb_cpu_driver_open_v1(&test::host(), &api, &self), TB_OK);
  CHECK_EQUAL(api.struct_size, offsetof(tb_driver_api, mem_alloc));
  for (const auto *byte = reinterpret_cast<const char *>(&api.mem_alloc);
       byte != reinterpret_cast<const char *>(&api + 1); ++byte)
    CHECK_EQUAL(*byte, 0x77);
  CHECK_EQUAL(api.close(self), TB_OK);
  api.struct_size = 4;
  tb_driver *untouched = nullptr;
  CHECK_EQUAL(tb_cpu_driver_open_v1(&test::host(), &api, &untouched), TB_ABI_MISMATCH);
  CHECK(untouched == nullptr);
}

CASE(two_drivers_live_side_by_side_and_open_again_after_close) {
  for (int turn = 0; turn < 3; ++turn) {
    OpenedDriver one, two(Options{{"devices", "3"}});
    int32_t counts[2] = {};
    CHECK_EQUAL(one.api.device_count(one.self, &counts[0]), TB_OK);
    CHECK_EQUAL(two.api.device_count(two.self, &counts[1]), TB_OK);
    CHECK_EQUAL(counts[0], 1);
    CHECK_EQUAL(counts[1], 3);
    std::atomic<int> ran{0};
    one.submit(one.default_stream(), [&ran] { ran.fetch_add(1); });
    two.submit(two.default_stream(2), [&ran] { ran.fetch_add(1); });
    CHECK_EQUAL(one.api.device_synchronize(one.self, 0), TB_OK);
    CHECK_EQUAL(two.api.device_synchronize(two.self, 2), TB_OK);
    CHECK_EQUAL(ran.load(), 2);
  }
}

CASE(good_options_are_taken) {
  const struct {
    const char *text;
    uint64_t bytes;
  } sizes[] = {{"1", 1}, {"4096", 4096}, {"3k", 3072}, {"512M", uint64_t(512) << 20}, {"2G", uint64_t(2) << 30}};
  for (const auto &size : sizes) {
    OpenedDriver driver(Options{{"memory", size.text}, {"devices", "64"}, {"spin", "77"}});
    uint64_t free = 0, total = 0;
    CHECK_EQUAL(driver.api.device_memory_info(driver.self, 63, &free, &total), TB_OK);
    CHECK_EQUAL(total, size.bytes);
    int64_t spin = 0;
    CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.spin", &spin), TB_OK);
    CHECK_EQUAL(spin, 77);
  }
}

CASE(a_bad_option_is_named_with_its_value_and_what_is_accepted) {
  const Options bad[] = {
      {{"devices", "0"}},   {{"devices", "65"}},   {{"devices", "two"}}, {{"devices", ""}},
      {{"devices", "-1"}},  {{"devices", "1K"}},   {{"memory", "0"}},    {{"memory", "12Q"}},
      {{"memory", "12MB"}}, {{"memory", "1.5G"}},  {{"memory", " 1"}},   {{"memory", "99999999999G"}},
      {{"spin", "-5"}},     {{"spin", "1000001"}}, {{"spin", "fast"}},   {{"spin", "99999999999999999999"}}};
  for (const Options &options : bad) {
    tb_driver_api api;
    tb_driver *self = nullptr;
    CHECK_EQUAL(test::open(&api, &self, options), TB_INVALID_ARGUMENT);
    CHECK(self == nullptr && api.close == nullptr);
    const std::string text = test::take_error();
    CHECK(text.find('"' + options.begin()->first + '"') != std::string::npos);
    CHECK(text.find('"' + options.begin()->second + '"') != std::string::npos);
    CHECK(text.find("accepted is") != std::string::npos);
  }
}

CASE(info_structs_are_filled_as_far_as_the_caller_knows_them) {
  OpenedDriver driver(Options{{"devices", "2"}});
  tb_driver_info info = {};
  info.struct_size = sizeof info;
  CHECK_EQUAL(driver.api.get_info(driver.self, &info), TB_OK);
  CHECK_EQUAL(std::strcmp(info.name, "cpu"), 0);
  CHECK_EQUAL(std::strcmp(info.native, "host"), 0);
  CHECK_EQUAL(info.dlpack_type, 1);
  tb_device_info devices[2] = {};
  for (int32_t device = 0; device < 2; ++device) {
    devices[device].struct_size = sizeof devices[device];
    CHECK_EQUAL(driver.api.device_get_info(driver.self, device, &devices[device]), TB_OK);
    CHECK(devices[device].alignment >= 64 && (devices[device].alignment & (devices[device].alignment - 1)) == 0);
    CHECK(devices[device].flags & TB_DEVICE_HOST_ACCESSIBLE);
    CHECK(devices[device].compute_units > 0 && devices[device].total_memory > 0 && devices[device].name[0]);
    CHECK(devices[device].priority_greatest < devices[device].priority_least);
  }
  CHECK(std::memcmp(devices[0].uuid, devices[1].uuid, 16) != 0);
  tb_device_info part;
  std::memset(&part, 0x55, sizeof part);
  part.struct_size = offsetof(tb_device_info, uuid);
  CHECK_EQUAL(driver.api.device_get_info(driver.self, 0, &part), TB_OK);
  CHECK_EQUAL(std::strcmp(part.name, devices[0].name), 0);
  CHECK_EQUAL(part.uuid[0], 0x55);
  CHECK_EQUAL(part.struct_size, offsetof(tb_device_info, uuid));
  part.struct_size = 0;
  CHECK_EQUAL(driver.api.device_get_info(driver.self, 0, &part), TB_INVALID_ARGUMENT);
  struct {
    tb_driver_info info;
    char tail[16];
  } larger;
  std::memset(&larger, 0x55, sizeof larger);
  larger.info.struct_size = sizeof larger;
  CHECK_EQUAL(driver.api.get_info(driver.self, &larger.info), TB_OK);
  CHECK_EQUAL(larger.tail[0], 0x55);
}

CASE(a_device_out_of_range_is_refused_everywhere) {
  OpenedDriver driver(Options{{"devices", "2"}});
  const tb_driver_api &api = driver.api;
  tb_driver *self = driver.self;
  for (int32_t bad : {-1, 2, INT32_MAX, INT32_MIN}) {
    uint64_t one = 0, two = 0;
    int64_t value = 0;
    int32_t flag = 0;
    void *pointer = nullptr;
    tb_stream *stream = nullptr;
    tb_event *event = nullptr;
    tb_physical *physical = nullptr;
    tb_device_info info = {};
    info.struct_size = sizeof info;
    tb_copy_2d copy = {sizeof copy, 1, &one, &two, 1, 1, 1, 1};
    const tb_status statuses[] = {
        api.device_get_info(self, bad, &info),
        api.device_memory_info(self, bad, &one, &two),
        api.device_query(self, bad, "cpu.spin", &value),
        api.device_activate(self, bad),
        api.mem_alloc(self, bad, 1, 0, &pointer),
        api.mem_free(self, bad, nullptr),
        api.mem_copy(self, bad, driver.default_stream(), &one, &two, 1, 1),
        api.mem_set(self, bad, driver.default_stream(), &one, 0, 1, 1),
        api.device_synchronize(self, bad),
        api.stream_default(self, bad, &stream),
        api.stream_create(self, bad, 0, 0, &stream),
        api.event_create(self, bad, 0, &event),
        api.mem_alloc_host(self, bad, 1, 0, &pointer),
        api.mem_register_host(self, bad, &one, 8, 0),
        api.mem_copy_2d(self, bad, driver.default_stream(), &copy),
        api.vmm_granularity(self, bad, &one, &two),
        api.vmm_create(self, bad, uint64_t(2) << 20, 0, &physical),
        api.peer_can_access(self, bad, 0, &flag),
        api.peer_can_access(self, 0, bad, &flag),
        api.peer_enable(self, bad, 0),
        api.peer_disable(self, 0, bad),
        api.peer_copy(self, driver.default_stream(), &one, bad, &two, 0, 1),
        api.peer_copy(self, driver.default_stream(), &one, 0, &two, bad, 1),
    };
    for (tb_status status : statuses) CHECK_EQUAL(status, TB_OUT_OF_RANGE);
    CHECK(test::take_error().find("there is no device") != std::string::npos);
    CHECK(!pointer && !stream && !event && !physical && one == 0 && info.name[0] == 0);
  }
}

CASE(missing_pointers_are_named) {
  OpenedDriver driver;
  const tb_driver_api &api = driver.api;
  tb_driver *self = driver.self;
  tb_event *event = driver.create_event();
  const auto refused = [&](tb_status status, const char *part) {
    return status == TB_INVALID_ARGUMENT && test::take_error().find(part) != std::string::npos;
  };
  CHECK(refused(api.get_info(self, nullptr), "out is NULL"));
  CHECK(refused(api.device_count(self, nullptr), "out is NULL"));
  CHECK(refused(api.mem_alloc(self, 0, 1, 0, nullptr), "out is NULL"));
  CHECK(refused(api.stream_create(self, 0, 0, 0, nullptr), "out is NULL"));
  CHECK(refused(api.stream_synchronize(self, nullptr), "stream is NULL"));
  CHECK(refused(api.stream_query(self, nullptr), "stream is NULL"));
  CHECK(refused(api.stream_destroy(self, nullptr), "stream is NULL"));
  CHECK(refused(api.event_record(self, nullptr, driver.default_stream()), "event is NULL"));
  CHECK(refused(api.event_record(self, event, nullptr), "stream is NULL"));
  CHECK(refused(api.event_query(self, nullptr), "event is NULL"));
  CHECK(refused(api.closure_reserve(self, nullptr, 1, nullptr), "stream is NULL"));
  CHECK(refused(api.closure_reserve(self, driver.default_stream(), 1, nullptr), "out is NULL"));
  CHECK(refused(api.device_query(self, 0, nullptr, nullptr), "key is NULL"));
  CHECK_EQUAL(api.device_count(nullptr, nullptr), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(api.event_destroy(self, event), TB_OK);
}

CASE(unknown_facts_and_extensions_are_not_found) {
  OpenedDriver driver;
  int64_t value = 5;
  CHECK_EQUAL(driver.api.device_query(driver.self, 0, "cpu.colour", &value), TB_NOT_FOUND);
  CHECK_EQUAL(value, 5);
  char table[8] = "intact";
  CHECK_EQUAL(driver.api.get_extension(driver.self, "tb.profiler", 1, table, sizeof table), TB_NOT_FOUND);
  CHECK_EQUAL(std::strcmp(table, "intact"), 0);
  CHECK_EQUAL(driver.api.device_activate(driver.self, 0), TB_OK);
}

CASE(close_refuses_while_anything_is_alive_and_counts_it) {
  OpenedDriver driver;
  const tb_driver_api &api = driver.api;
  tb_driver *self = driver.self;
  const auto refused = [&](const char *part) {
    return api.close(self) == TB_FAILED_PRECONDITION && test::take_error().find(part) != std::string::npos;
  };
  void *one = driver.allocate(1), *two = driver.allocate(1);
  CHECK(refused("2 device blocks"));
  api.mem_free(self, 0, one);
  api.mem_free(self, 0, two);
  CHECK_EQUAL(api.mem_alloc_host(self, 0, 1, 0, &one), TB_OK);
  CHECK(refused("1 pinned blocks"));
  api.mem_free_host(self, one);
  CHECK_EQUAL(api.mem_register_host(self, 0, &one, 8, 0), TB_OK);
  CHECK(refused("1 registered ranges"));
  api.mem_unregister_host(self, &one);
  tb_stream *stream = driver.create_stream();
  CHECK(refused("1 streams"));
  api.stream_destroy(self, stream);
  tb_event *event = driver.create_event();
  CHECK(refused("1 events"));
  api.event_destroy(self, event);
  tb_physical *physical = nullptr;
  CHECK_EQUAL(api.vmm_create(self, 0, uint64_t(2) << 20, 0, &physical), TB_OK);
  CHECK(refused("1 physical memories"));
  api.vmm_destroy(self, physical);
  CHECK_EQUAL(api.vmm_reserve(self, uint64_t(2) << 20, 0, nullptr, &one), TB_OK);
  CHECK(refused("1 address ranges"));
  api.vmm_release(self, one, uint64_t(2) << 20);
  int ran = 0; // the driver still works after the refusals
  driver.submit(driver.default_stream(), [&ran] { ++ran; });
  CHECK_EQUAL(api.stream_synchronize(self, driver.default_stream()), TB_OK);
  CHECK_EQUAL(ran, 1);
}
