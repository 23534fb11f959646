// Cases about devices: their number, their facts, their ordinals.
#include <limits>
#include <set>

#include "contract/support/arguments.h"

namespace tb::contract::devices_cases {
namespace {

tb_device_info asked(Kit &kit, int32_t device) {
  tb_device_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(kit.api().device_get_info(kit.self(), device, &info));
  return info;
}

} // namespace

TB_CASE(DEV, 01, TB_GROUP_CORE, "device_count.2 T1", "the number of devices is the same for every call and thread") {
  const int32_t count = kit.device_count();
  Threads threads;
  for (int i = 0; i < 8; ++i)
    threads.start([&] {
      for (int round = 0; round < 100; ++round) CHECK_EQUAL(kit.device_count(), count);
    });
  threads.join();
}

TB_CASE(DEV, 02, TB_GROUP_CORE, "device_count.1", "the number of devices is an answer, never an error") {
  int32_t count = -1;
  CHECK_OK(kit.api().device_count(kit.self(), &count));
  CHECK(count >= 0);
  if (count == 0) kit.state("there is no device here: cases about devices prove nothing");
}

TB_CASE(DEV, 03, TB_GROUP_CORE, "device_get_info.2 device_get_info.4", "a device's facts make sense") {
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    const tb_device_info info = asked(kit, device);
    CHECK(info.alignment >= 64);
    CHECK_EQUAL(info.alignment & (info.alignment - 1), 0u);
    CHECK(info.priority_greatest <= 0 && 0 <= info.priority_least);
    CHECK(info.total_memory > 0);
    CHECK(info.max_allocation > 0 && info.max_allocation <= info.total_memory);
    CHECK_EQUAL(info.struct_size, static_cast<uint32_t>(sizeof info));
    CHECK_EQUAL(info.flags & ~static_cast<uint32_t>(TB_DEVICE_HOST_ACCESSIBLE | TB_DEVICE_SURVIVES_FORK), 0u);
  }
}

TB_CASE(DEV, 04, TB_GROUP_CORE, "device_get_info.1 device_get_info.3",
        "facts never change, and each uuid is one device's") {
  std::set<std::string> seen;
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    const tb_device_info first = asked(kit, device), again = asked(kit, device);
    CHECK(memcmp(&first, &again, sizeof first) == 0);
    CHECK(seen.emplace(reinterpret_cast<const char *>(first.uuid), sizeof first.uuid).second);
  }
  Opened second(kit.target(), kit.options()); // the device's own: also for another self
  tb_device_info info{};
  info.struct_size = sizeof info;
  CHECK(second.api.device_get_info(second.self, 0, &info) == TB_OK);
  CHECK(memcmp(info.uuid, kit.info().uuid, sizeof info.uuid) == 0);
}

TB_CASE(DEV, 05, TB_GROUP_CORE, "E7", "a device that there is not is out of range, in every function that names one",
        .own_process = true) {
  Arguments arguments(kit);
  const std::vector<int32_t> strangers = {-1, kit.device_count(), std::numeric_limits<int32_t>::max(),
                                          std::numeric_limits<int32_t>::min()};
  for (const SlotCall &slot : arguments.slots())
    for (size_t i = 0; i < slot.parameters.size(); ++i)
      for (const int32_t stranger : strangers) {
        if (!is_device_name(slot.parameters[i])) continue;
        const tb_status status = *arguments.call(slot, Spoil::device, i, stranger);
        if (!arguments.all_available() && (status == TB_INVALID_ARGUMENT || status == TB_NOT_FOUND)) continue;
        kit.check_status(status, TB_OUT_OF_RANGE, slot.name.c_str(), __FILE__, __LINE__);
      }
}

TB_CASE(DEV, 06, TB_GROUP_CORE, "device_memory_info.1", "free is at most total, and total is what the device says") {
  kit.need(kit.api().device_memory_info, "device_memory_info");
  for (int32_t device = 0; device < kit.device_count(); ++device) {
    uint64_t free = 0, total = 0;
    CHECK_OK(kit.api().device_memory_info(kit.self(), device, &free, &total));
    CHECK_EQUAL(total, asked(kit, device).total_memory);
    CHECK(free <= total);
  }
}

TB_CASE(DEV, 07, TB_GROUP_CORE, "device_query.1 device_query.2", "an unknown key is not found") {
  kit.need(kit.api().device_query, "device_query");
  int64_t out = -77;
  for (const char *key : {"tb.no_such_fact", "", "no_name_space"}) {
    CHECK_STATUS(kit.api().device_query(kit.self(), 0, key, &out), TB_NOT_FOUND);
    CHECK_EQUAL(out, -77);
  }
}

TB_CASE(DEV, 08, TB_GROUP_CORE, "device_activate.1 T4",
        "activating a device on one thread changes nothing for others") {
  kit.need(kit.api().device_activate, "device_activate");
  kit.need_devices(2);
  kit::Block near(kit, 256, 0), far(kit, 256, 1);
  CHECK_OK(kit.api().device_activate(kit.self(), 1));
  near.fill(3); // names device 0, whatever is active
  far.fill(4);
  Threads threads;
  threads.start([&] {
    CHECK_OK(kit.api().device_activate(kit.self(), 0));
    near.fill(5);
  });
  threads.join();
  far.fill(6);
  CHECK(near.read() == std::vector<uint8_t>(256, 5));
  CHECK(far.read() == std::vector<uint8_t>(256, 6));
  CHECK_OK(kit.api().device_activate(kit.self(), 0));
}

// Drivers that can lose a device on purpose do so with the option lose_after, at the Nth piece of work.
TB_CASE(DEV, 09, TB_GROUP_ASYNC, "device_reset.1 device_reset.2 E4",
        "a lost device is lost until its reset, and works then", .own_process = true) {
  kit.need(kit.api().device_reset, "device_reset");
  Options options = kit.options();
  options["lose_after"] = "1";
  Opened lost(kit.target(), options);
  const tb_driver_api &api = lost.api;
  tb_driver *const self = lost.self;
  tb_stream *stream = nullptr;
  void *before = nullptr;
  CHECK_OK(api.stream_create(self, 0, 0, 0, &stream));
  CHECK_OK(api.mem_alloc(self, 0, 4096, 0, &before));
  CHECK_OK(api.mem_set(self, 0, stream, before, 1, 1, 4096));
  const tb_status reported = api.stream_synchronize(self, stream);
  if (reported == TB_OK) {
    CHECK_OK(api.stream_destroy(self, stream));
    CHECK_OK(api.mem_free(self, 0, before));
    throw NotOffered("the driver has no option lose_after, so its device cannot be lost on purpose");
  }
  kit.check_status(reported, TB_DEVICE_LOST, "stream_synchronize", __FILE__, __LINE__);
  void *none = nullptr;
  for (int round = 0; round < 3; ++round) CHECK_STATUS(api.mem_alloc(self, 0, 64, 0, &none), TB_DEVICE_LOST);
  CHECK_OK(api.device_reset(self, 0));

  const tb_status old = api.mem_set(self, 0, stream, before, 1, 1, 64);
  CHECK(old == TB_DEVICE_LOST || old == TB_INVALID_ARGUMENT);
  CHECK_OK(api.stream_destroy(self, stream));
  CHECK_OK(api.mem_free(self, 0, before));

  std::vector<uint8_t> back(4096);
  void *after = nullptr;
  tb_stream *fresh = nullptr;
  CHECK_OK(api.mem_alloc(self, 0, 4096, 0, &after));
  CHECK_OK(api.stream_create(self, 0, 0, 0, &fresh));
  CHECK_OK(api.mem_set(self, 0, fresh, after, 0x21, 1, 4096));
  CHECK_OK(api.mem_copy(self, 0, fresh, back.data(), after, 4096, TB_COPY_DEVICE_TO_HOST));
  CHECK_OK(api.stream_synchronize(self, fresh));
  CHECK(back == std::vector<uint8_t>(4096, 0x21));
  CHECK_OK(api.stream_destroy(self, fresh));
  CHECK_OK(api.mem_free(self, 0, after));
}

TB_CASE(DEV, 10, TB_GROUP_CORE, "close.1 close.2", "close with live objects refuses and changes nothing") {
  Opened second(kit.target(), kit.options());
  void *block = nullptr;
  CHECK(second.api.mem_alloc(second.self, 0, 4096, 0, &block) == TB_OK);
  tb_stream *stream = nullptr;
  if (kit.has_async()) CHECK(second.api.stream_default(second.self, 0, &stream) == TB_OK);
  for (int round = 0; round < 2; ++round) CHECK_STATUS(second.api.close(second.self), TB_FAILED_PRECONDITION);
  std::vector<uint8_t> sent(4096, 0x3D), back(4096);
  CHECK(second.api.mem_copy(second.self, 0, stream, block, sent.data(), 4096, TB_COPY_HOST_TO_DEVICE) == TB_OK);
  CHECK(second.api.mem_copy(second.self, 0, stream, back.data(), block, 4096, TB_COPY_DEVICE_TO_HOST) == TB_OK);
  if (stream) CHECK(second.api.stream_synchronize(second.self, stream) == TB_OK);
  CHECK(sent == back);
  CHECK(second.api.mem_free(second.self, 0, block) == TB_OK);
} // and then it closes

} // namespace tb::contract::devices_cases
