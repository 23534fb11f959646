// Address ranges and physical memory that cases hold, given back in the right order.
#pragma once

#include <utility>

#include "contract/support/probe.h"

namespace tb::contract {

struct Granularity {
  explicit Granularity(Kit &kit, int32_t device = 0) {
    CHECK_OK(kit.api().vmm_granularity(kit.self(), device, &minimum, &recommended));
  }
  uint64_t minimum = 0, recommended = 0;
};

class Physical {
public:
  Physical(Kit &kit, uint64_t size, int32_t device = 0) : kit_(kit) {
    CHECK_OK(kit.api().vmm_create(kit.self(), device, size, 0, &physical_));
  }
  ~Physical() { destroy(); }
  Physical(const Physical &) = delete;
  Physical &operator=(const Physical &) = delete;
  operator tb_physical *() const { return physical_; }
  void destroy() {
    if (physical_) kit_.api().vmm_destroy(kit_.self(), std::exchange(physical_, nullptr));
  }

private:
  Kit &kit_;
  tb_physical *physical_ = nullptr;
};

// A reservation. Takes its mappings away before it goes.
class Range {
public:
  Range(Kit &kit, uint64_t size, uint64_t alignment = 0, void *hint = nullptr) : kit_(kit), size_(size) {
    CHECK_OK(kit.api().vmm_reserve(kit.self(), size, alignment, hint, &address_));
  }
  ~Range() {
    for (const Mapping &mapping : mappings_) kit_.api().vmm_unmap(kit_.self(), mapping.address, mapping.size);
    kit_.api().vmm_release(kit_.self(), address_, size_);
  }
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;
  uint8_t *at(uint64_t offset) const { return static_cast<uint8_t *>(address_) + offset; }
  uint64_t size() const { return size_; }
  // Maps and gives the device read and write access.
  void map(uint64_t place, uint64_t size, tb_physical *physical, uint64_t offset = 0, int32_t device = 0) {
    Kit &kit = kit_;
    CHECK_OK(kit.api().vmm_map(kit.self(), at(place), size, physical, offset));
    note_mapping(place, size);
    CHECK_OK(kit.api().vmm_set_access(kit.self(), at(place), size, &device, 1, 3));
  }
  // Takes over a mapping that the case made itself.
  void note_mapping(uint64_t place, uint64_t size) { mappings_.push_back({at(place), size}); }
  void unmap(uint64_t place, uint64_t size) {
    Kit &kit = kit_;
    CHECK_OK(kit.api().vmm_unmap(kit.self(), at(place), size));
    std::erase_if(mappings_, [&](const Mapping &mapping) { return mapping.address == at(place); });
  }

private:
  struct Mapping {
    uint8_t *address;
    uint64_t size;
  };
  Kit &kit_;
  uint64_t size_;
  void *address_ = nullptr;
  std::vector<Mapping> mappings_;
};

} // namespace tb::contract
