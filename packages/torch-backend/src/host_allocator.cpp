// host_allocator.cpp -- pinned host memory: at::HostAllocator over tb-allocator's host functions.
#include <ATen/core/CachingHostAllocator.h>

#include "address_contexts.h"
#include "allocators.h"
#include "components.h"
#include "registration.h"
#include "stream_sanitizer.h"

namespace tb::backend {
namespace {

void free_host_block(void *block) {
  if (readiness.load(std::memory_order_relaxed) != Readiness::ready) [[unlikely]]
    return;
  components.allocator.host_deallocate(static_cast<tb_block *>(block));
}

void free_host_address(void *pointer);

AddressContexts &address_contexts() {
  static auto &contexts = *new AddressContexts(&free_host_block, &free_host_address);
  return contexts;
}

void free_host_address(void *pointer) {
  if (readiness.load(std::memory_order_relaxed) != Readiness::ready) return;
  if (tb_block *block = address_contexts().take(pointer)) free_host_block(block);
}

void copy(c10::CachingAllocator::Stat &out, const tb_statistic &in) {
  out.current = in.current;
  out.peak = in.peak;
  out.allocated = in.allocated;
  out.freed = in.freed;
}

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t size) override {
    ensure_ready();
    void *pointer = nullptr;
    tb_block *block = nullptr;
    check(components.allocator.host_allocate(size, &pointer, &block), "host_allocate");
    tell_allocated(pointer, size);
    return {pointer, block, &free_host_block, c10::DeviceType::CPU};
  }
  bool is_simple_data_ptr(const c10::DataPtr &data) const override { return address_contexts().make_simple(data); }
  void copy_data(void *destination, const void *source, size_t size) const override {
    default_copy_data(destination, source, size);
  }
  // The caller may have a view, a copy-on-write wrapper or memory of another allocator, so the block is found by its
  // address and not by the context. Returns false, and records nothing, for other memory.
  bool record_event(void *pointer, void *, c10::Stream stream) override {
    ensure_ready();
    tb_block *block = components.allocator.host_find(pointer);
    if (!block) return false;
    check(components.allocator.host_record_stream(block, from_c10(stream)), "host_record_stream",
          stream.device_index());
    return true;
  }
  void empty_cache() override {
    if (readiness.load() != Readiness::ready) return; // nothing was ever cached
    check(components.allocator.host_empty_cache(), "host_empty_cache");
  }
  at::HostStats get_stats() override {
    ensure_ready();
    tb_allocator_statistics in{};
    in.struct_size = sizeof in;
    check(components.allocator.host_statistics(&in), "host_statistics");
    at::HostStats out;
    copy(out.active_requests, in.allocation[0]);
    copy(out.active_bytes, in.allocated_bytes[0]);
    copy(out.allocations, in.segment[0]);
    copy(out.allocated_bytes, in.reserved_bytes[0]);
    out.num_host_alloc = in.num_device_alloc;
    out.num_host_free = in.num_device_free;
    return out;
  }
  // tb-allocator cannot reset statistics of host memory. An error is better than figures that do not change.
  void reset_accumulated_stats() override {
    C10_THROW_ERROR(NotImplementedError, "tb's pinned-memory statistics cannot be reset");
  }
  void reset_peak_stats() override { reset_accumulated_stats(); }
};

PinnedAllocator &pinned_allocator() {
  static PinnedAllocator &allocator = *new PinnedAllocator;
  return allocator;
}

} // namespace

at::HostAllocator *host_allocator() { return &pinned_allocator(); }

void register_host_allocator() { at::setHostAllocator(device_type, &pinned_allocator()); }

} // namespace tb::backend
