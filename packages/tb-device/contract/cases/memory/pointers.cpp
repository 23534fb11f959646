// PTR: what a pointer is.
#include "contract/support/probe.h"

namespace tb::contract::pointers_cases {
namespace {

tb_pointer_info info_of(Kit &kit, const void *pointer) {
  tb_pointer_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(kit.api().mem_get_info(kit.self(), pointer, &info));
  return info;
}

TB_CASE(PTR, 01, TB_GROUP_PTR, "mem_get_info.1", "a pointer anywhere in a block gives base, size, device and kind") {
  for (int32_t device = 0; device < kit.device_count(); ++device)
    for (const uint64_t size : {1, 4096, 100001}) {
      Block before(kit, 64, device), block(kit, size, device), after(kit, 64, device);
      for (const uint64_t offset : {uint64_t(0), size / 3, size - 1}) {
        const tb_pointer_info info = info_of(kit, block.data() + offset);
        CHECK_EQUAL(info.base, static_cast<void *>(block.data()));
        CHECK(info.size >= size); // a driver may round up
        CHECK(info.size < size + (4u << 20));
        CHECK_EQUAL(info.device, device);
        CHECK_EQUAL(info.kind, int32_t(TB_POINTER_DEVICE));
      }
    }
}

TB_CASE(PTR, 02, TB_GROUP_PTR | TB_GROUP_PIN, "mem_get_info.1", "pinned host memory says so") {
  auto [api, self] = driver_of(kit);
  void *pinned = nullptr;
  CHECK_OK(api.mem_alloc_host(self, 0, 5000, 0, &pinned));
  for (const uint64_t offset : {0, 2500, 4999}) {
    const tb_pointer_info info = info_of(kit, static_cast<char *>(pinned) + offset);
    CHECK_EQUAL(info.base, pinned);
    CHECK_EQUAL(info.kind, int32_t(TB_POINTER_HOST_PINNED));
    CHECK(info.size >= 5000);
  }
  CHECK_OK(api.mem_free_host(self, pinned));
}

TB_CASE(PTR, 03, TB_GROUP_PTR, "mem_get_info.2 E1",
        "a pointer that is not the driver's is not found, the struct untouched") {
  auto [api, self] = driver_of(kit);
  const int on_stack = 0;
  const auto on_heap = std::make_unique<int[]>(1000);
  for (const void *pointer : {static_cast<const void *>(&on_stack), static_cast<const void *>(on_heap.get() + 500),
                              static_cast<const void *>(nullptr)}) {
    tb_pointer_info info{};
    info.struct_size = sizeof info;
    info.kind = 77;
    info.size = 78;
    CHECK_STATUS(api.mem_get_info(self, pointer, &info), TB_NOT_FOUND);
    CHECK_EQUAL(info.kind, 77);
    CHECK_EQUAL(info.size, uint64_t(78));
  }
}

TB_CASE(PTR, 04, TB_GROUP_PTR, "mem_get_info.2 mem_free.1", "a freed block is no longer known") {
  auto [api, self] = driver_of(kit);
  void *memory = nullptr;
  CHECK_OK(api.mem_alloc(self, 0, 3 << 20, 0, &memory));
  CHECK_EQUAL(info_of(kit, memory).base, memory);
  CHECK_OK(api.mem_free(self, 0, memory));
  tb_pointer_info info{};
  info.struct_size = sizeof info;
  CHECK_STATUS(api.mem_get_info(self, memory, &info), TB_NOT_FOUND);
}

} // namespace
} // namespace tb::contract::pointers_cases
