// PIN: host memory that the device reads and writes directly.
#include <cstring>
#include <set>

#include "contract/support/probe.h"

namespace tb::contract::pinned_memory_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_PIN;

class Pinned {
public:
  Pinned(Kit &kit, uint64_t size, int32_t device = 0) : kit_(kit) {
    CHECK_OK(kit.api().mem_alloc_host(kit.self(), device, size, 0, &data_));
  }
  ~Pinned() { kit_.api().mem_free_host(kit_.self(), data_); }
  Pinned(const Pinned &) = delete;
  Pinned &operator=(const Pinned &) = delete;
  uint8_t *data() const { return static_cast<uint8_t *>(data_); }

private:
  Kit &kit_;
  void *data_ = nullptr;
};

// Memory of the case's own, of whole pages: some devices register nothing else.
struct Pages {
  explicit Pages(uint64_t size) : data(static_cast<uint8_t *>(std::aligned_alloc(1 << 16, size))), size(size) {}
  ~Pages() { std::free(data); }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  uint8_t *data;
  uint64_t size;
};

// Copies `size` bytes of a pattern from `host` to the device, clears `host`, and copies them back.
void round_trip(Kit &kit, uint8_t *host, uint64_t size, uint8_t seed) {
  Block block(kit, size);
  for (uint64_t i = 0; i < size; ++i) host[i] = static_cast<uint8_t>(seed + i * 7);
  kit.to_device(block.data(), host, size);
  std::memset(host, 0, size);
  kit.to_host(host, block.data(), size);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < size; ++i) wrong += host[i] != static_cast<uint8_t>(seed + i * 7);
  CHECK_EQUAL(wrong, uint64_t(0));
}

TB_CASE(PIN, 01, needs, "mem_alloc_host.1", "the host writes and reads pinned memory, the device copies it") {
  for (const uint64_t size : {1, 4095, 65536, 1 << 20}) {
    Pinned pinned(kit, size);
    round_trip(kit, pinned.data(), size, static_cast<uint8_t>(size));
  }
}

TB_CASE(PIN, 02, needs, "mem_free_host.1", "freeing NULL is a no-op") {
  auto [api, self] = driver_of(kit);
  for (int i = 0; i < 3; ++i) CHECK_OK(api.mem_free_host(self, nullptr));
}

TB_CASE(PIN, 03, needs | TB_GROUP_ASYNC, "mem_alloc_host.2 T5", "copies from and to pinned memory do not block") {
  auto [api, self] = driver_of(kit);
  constexpr uint64_t block_bytes = 1 << 20;
  Pinned from(kit, block_bytes), to(kit, block_bytes);
  std::memset(from.data(), 3, block_bytes);
  std::memset(to.data(), 0, block_bytes);
  Block block(kit, block_bytes);
  Stream stream(kit);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  CHECK_OK(api.mem_copy(self, 0, stream, block.data(), from.data(), block_bytes, TB_COPY_HOST_TO_DEVICE));
  CHECK_OK(api.mem_copy(self, 0, stream, to.data(), block.data(), block_bytes, TB_COPY_DEVICE_TO_HOST));
  CHECK(!rescue.opened());
  check_held(kit, stream);
  CHECK_EQUAL(int(to.data()[0]), 0);
  gate.open();
  stream.synchronize();
  CHECK_EQUAL(int(to.data()[0]), 3);
  CHECK_EQUAL(int(to.data()[block_bytes - 1]), 3);
}

TB_CASE(PIN, 04, needs, "mem_alloc_host.1", "live pinned blocks never overlap") {
  std::vector<std::unique_ptr<Pinned>> blocks;
  constexpr uint64_t block_bytes = 1000;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(std::make_unique<Pinned>(kit, block_bytes));
    std::memset(blocks.back()->data(), i, block_bytes);
  }
  for (int i = 0; i < 100; ++i)
    for (uint64_t byte = 0; byte < block_bytes; ++byte)
      CHECK_EQUAL(int(blocks[static_cast<size_t>(i)]->data()[byte]), i);
}

TB_CASE(PIN, 05, needs, "mem_register_host.1 mem_unregister_host.1",
        "registered memory is copied, and keeps its bytes after") {
  auto [api, self] = driver_of(kit);
  kit.need(api.mem_register_host, "mem_register_host");
  Pages pages(1 << 18);
  CHECK_OK(api.mem_register_host(self, 0, pages.data, pages.size, 0));
  round_trip(kit, pages.data, pages.size, 5);
  std::memset(pages.data, 55, pages.size);
  CHECK_OK(api.mem_unregister_host(self, pages.data));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < pages.size; ++i) wrong += pages.data[i] != 55;
  CHECK_EQUAL(wrong, uint64_t(0));
  round_trip(kit, pages.data, pages.size, 6); // as pageable memory
}

TB_CASE(PIN, 06, needs, "mem_register_host.2", "registering over a registered range is refused") {
  auto [api, self] = driver_of(kit);
  kit.need(api.mem_register_host, "mem_register_host");
  constexpr uint64_t part_bytes = 1 << 16;
  Pages pages(4 * part_bytes);
  CHECK_OK(api.mem_register_host(self, 0, pages.data + part_bytes, 2 * part_bytes, 0));
  struct Range {
    uint64_t offset, size;
  };
  for (const Range &range :
       {Range{part_bytes, 2 * part_bytes}, Range{0, 2 * part_bytes}, Range{2 * part_bytes, 2 * part_bytes},
        Range{0, 4 * part_bytes}, Range{2 * part_bytes, part_bytes}})
    CHECK_STATUS(api.mem_register_host(self, 0, pages.data + range.offset, range.size, 0), TB_ALREADY_EXISTS);
  CHECK_OK(api.mem_register_host(self, 0, pages.data, part_bytes, 0)); // neighbours do not overlap
  CHECK_OK(api.mem_unregister_host(self, pages.data));
  CHECK_OK(api.mem_unregister_host(self, pages.data + part_bytes));
  CHECK_OK(api.mem_register_host(self, 0, pages.data, 4 * part_bytes, 0)); // and the range is free again
  CHECK_OK(api.mem_unregister_host(self, pages.data));
}

TB_CASE(PIN, 07, needs, "mem_register_host.2", "registering a block of mem_alloc_host is refused") {
  auto [api, self] = driver_of(kit);
  kit.need(api.mem_register_host, "mem_register_host");
  Pinned pinned(kit, 1 << 16);
  CHECK_STATUS(api.mem_register_host(self, 0, pinned.data(), 1 << 16, 0), TB_ALREADY_EXISTS);
  round_trip(kit, pinned.data(), 1 << 16, 7); // as it was
}

TB_CASE(PIN, 08, needs, "mem_unregister_host.2", "unregistering what is not registered is refused") {
  auto [api, self] = driver_of(kit);
  kit.need(api.mem_unregister_host, "mem_unregister_host");
  Pages pages(1 << 16);
  const auto refused = [&, api = &api, self = self] {
    const tb_status status = api->mem_unregister_host(self, pages.data);
    CHECK_STATUS(status, status == TB_NOT_FOUND ? TB_NOT_FOUND : TB_INVALID_ARGUMENT);
  };
  refused();
  CHECK_OK(api.mem_register_host(self, 0, pages.data, pages.size, 0));
  CHECK_OK(api.mem_unregister_host(self, pages.data));
  refused(); // twice
}

} // namespace
} // namespace tb::contract::pinned_memory_cases
