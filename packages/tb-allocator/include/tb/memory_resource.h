/* memory_resource.h -- tb-allocator's memory for C++: as std::pmr::memory_resource, and by stream.
 *
 * Header only; needs the table of tb-allocator, which an extension module imports with tb_import() of
 * tb/component_python.h. The table must outlive every resource. All functions may be called from any thread; memory of a
 * resource must be given back through the same resource, before it ends. What cannot be had throws std::bad_alloc; the
 * reason is the last error of tb-device's table.
 */
#ifndef TB_MEMORY_RESOURCE_H
#define TB_MEMORY_RESOURCE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <new>
#include <unordered_map>

#include "tb/component.h"

namespace tb {

/* The blocks behind addresses, for callers that give back an address only. */
class BlocksByAddress {
public:
  struct Entry {
    tb_block *block = nullptr;
    tb_stream *stream = nullptr; /* that it was allocated for */
    int32_t device = -1;
  };

  void insert(void *address, Entry entry) {
    Shard &shard = shard_of(address);
    std::lock_guard guard(shard.mutex);
    shard.entries.emplace(address, entry);
  }
  /* An empty entry where the address is not known. */
  Entry take(void *address) noexcept {
    Shard &shard = shard_of(address);
    std::lock_guard guard(shard.mutex);
    auto found = shard.entries.find(address);
    if (found == shard.entries.end()) return {};
    Entry entry = found->second;
    shard.entries.erase(found);
    return entry;
  }
  Entry find(void *address) {
    Shard &shard = shard_of(address);
    std::lock_guard guard(shard.mutex);
    auto found = shard.entries.find(address);
    return found == shard.entries.end() ? Entry{} : found->second;
  }

private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<void *, Entry> entries;
  };
  /* Blocks are cut in units of 512 bytes: the bits above tell neighbours apart. */
  Shard &shard_of(void *address) { return shards_[reinterpret_cast<uintptr_t>(address) / 512 % shards_.size()]; }

  std::array<Shard, 16> shards_;
};

/* What the resources share: alignment beyond the allocator's own, and the books. */
class BlocksOfTable {
public:
  explicit BlocksOfTable(const tb_allocator_table &table) : table_(&table) {}
  const tb_allocator_table &table() const { return *table_; }

  /* `get(bytes, &pointer, &block)` asks the table. */
  template <class Get> void *allocate(std::size_t bytes, std::size_t alignment, tb_stream *stream, Get get) {
    if (bytes == 0) bytes = 1; /* an address of its own */
    const std::size_t extra = alignment > least_alignment ? alignment - least_alignment : 0;
    if (bytes > SIZE_MAX - extra) throw std::bad_alloc();
    void *pointer = nullptr;
    BlocksByAddress::Entry entry{nullptr, stream, -1};
    if (get(bytes + extra, &pointer, &entry.block) != TB_OK) throw std::bad_alloc();
    const uintptr_t mask = alignment - 1, address = reinterpret_cast<uintptr_t>(pointer);
    pointer = reinterpret_cast<void *>((address + mask) & ~mask);
    try {
      blocks_.insert(pointer, entry);
    } catch (...) {
      table_->deallocate(entry.block); /* the same function for pinned memory */
      throw;
    }
    return pointer;
  }
  BlocksByAddress::Entry take(void *pointer) noexcept { return blocks_.take(pointer); }

private:
  static constexpr std::size_t least_alignment = 64; /* of the table's memory */
  const tb_allocator_table *table_;
  BlocksByAddress blocks_;
};

/* Pinned host memory, which devices copy from and to without waiting. */
class PinnedMemoryResource final : public std::pmr::memory_resource {
public:
  explicit PinnedMemoryResource(const tb_allocator_table &table) : blocks_(table) {}

private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return blocks_.allocate(bytes, alignment, nullptr, [this](uint64_t size, void **pointer, tb_block **block) {
      return blocks_.table().host_allocate(size, pointer, block);
    });
  }
  void do_deallocate(void *pointer, std::size_t, std::size_t) override {
    blocks_.table().host_deallocate(blocks_.take(pointer).block);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  BlocksOfTable blocks_;
};

/* Memory of a device by stream: ready for work queued on `stream`, and used again after what was queued on the stream of
 * deallocate by then. NULL is the device's default stream. */
class StreamMemoryResource final {
public:
  StreamMemoryResource(const tb_allocator_table &table, int32_t device) : blocks_(table), device_(device) {}

  [[nodiscard]] void *allocate(tb_stream *stream, std::size_t bytes,
                               std::size_t alignment = alignof(std::max_align_t)) {
    return blocks_.allocate(bytes, alignment, stream, [&](uint64_t size, void **pointer, tb_block **block) {
      return blocks_.table().allocate(device_, size, stream, pointer, block);
    });
  }
  void deallocate(tb_stream *stream, void *pointer, std::size_t = 0, std::size_t = 0) noexcept {
    BlocksByAddress::Entry entry = blocks_.take(pointer);
    /* A failure means that the driver refuses everything now: there is nothing to wait for. */
    if (entry.block && entry.stream != stream) static_cast<void>(blocks_.table().record_stream(entry.block, stream));
    blocks_.table().deallocate(entry.block);
  }

private:
  BlocksOfTable blocks_;
  int32_t device_;
};

/* The same for one stream as std::pmr::memory_resource. Containers hold device memory only where the host reaches it. */
class DeviceMemoryResource final : public std::pmr::memory_resource {
public:
  DeviceMemoryResource(const tb_allocator_table &table, int32_t device, tb_stream *stream = nullptr)
      : memory_(table, device), stream_(stream) {}

private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return memory_.allocate(stream_, bytes, alignment);
  }
  void do_deallocate(void *pointer, std::size_t, std::size_t) override { memory_.deallocate(stream_, pointer); }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  StreamMemoryResource memory_;
  tb_stream *stream_;
};

} // namespace tb

#endif
