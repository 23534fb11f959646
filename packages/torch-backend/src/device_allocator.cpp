// device_allocator.cpp -- c10::DeviceAllocator over tb-allocator's table. The context of a DataPtr is its tb_block.
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "allocators.h"
#include "backward_thread.h"
#include "components.h"
#include "registration.h"
#include "stream_sanitizer.h"

namespace tb::backend {
namespace {

// Tells torch.profiler (profile_memory=True) that a block was allocated or freed.
void tell_profiler(const tb_block *block, bool freed) {
  int32_t device = 0;
  void *pointer = nullptr;
  uint64_t size = 0;
  components.allocator.block_info(block, &device, &pointer, &size);
  tb_allocator_statistics now{};
  now.struct_size = sizeof now;
  if (components.allocator.statistics(device, &now) != TB_OK) {
    drop_error();
    return;
  }
  const auto bytes = static_cast<int64_t>(size);
  const int64_t allocated = now.allocated_bytes[0].current - (freed ? bytes : 0);
  c10::reportMemoryUsageToProfiler(pointer, freed ? -bytes : bytes, static_cast<size_t>(allocated),
                                   static_cast<size_t>(now.reserved_bytes[0].current), make_device(device));
}

// Destructors also call this at the end of the process and in forked children, where the driver is closed or the block
// belongs to the parent. There is nothing to deallocate then.
void free_block(void *block) {
  if (readiness.load(std::memory_order_relaxed) != Readiness::ready) [[unlikely]]
    return;
  auto *ours = static_cast<tb_block *>(block);
  if (ours && c10::memoryProfilingEnabled()) [[unlikely]] // before the memory has another owner, on another thread
    tell_profiler(ours, true);
  components.allocator.deallocate(ours);
}

void copy(c10::CachingAllocator::StatArray &out, const tb_statistic (&in)[3]) {
  for (size_t pool = 0; pool < 3; pool++) {
    out[pool].current = in[pool].current;
    out[pool].peak = in[pool].peak;
    out[pool].allocated = in[pool].allocated;
    out[pool].freed = in[pool].freed;
  }
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t size) override {
    ensure_ready();
    settle_backward_thread();
    const int32_t device = components.device.current_device();
    void *pointer = nullptr;
    tb_block *block = nullptr;
    check(components.allocator.allocate(device, size, current_stream(device), &pointer, &block), "allocate", device);
    if (block && c10::memoryProfilingEnabled()) [[unlikely]]
      tell_profiler(block, false);
    tell_allocated(pointer, size);
    return {pointer, block, &free_block, make_device(device)};
  }
  // Never copy-on-write: a write would queue the copy of the data when the launch that writes has its place in the queue
  // already. So aten::_lazy_clone copies at once (tb-ops), and PyTorch's own refuses the storage.
  bool is_simple_data_ptr(const c10::DataPtr &) const override { return false; }
  // Copies in stream order on the current stream, as every other use of the memory does.
  void copy_data(void *destination, const void *source, size_t size) const override {
    if (!size) return;
    ensure_ready();
    const int32_t device = components.device.current_device();
    check(components.api->mem_copy(components.driver, device, current_stream(device), destination, source, size,
                                   TB_COPY_DEVICE_TO_DEVICE),
          "mem_copy", device);
  }

  bool initialized() override { return readiness.load() == Readiness::ready; }
  void emptyCache(c10::MempoolId_t) override {
    ensure_ready();
    check(components.allocator.empty_cache(-1), "empty_cache");
  }
  void recordStream(const c10::DataPtr &data, c10::Stream stream) override { record_stream(data, stream); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    ensure_ready();
    tb_allocator_statistics in{};
    in.struct_size = sizeof in;
    check(components.allocator.statistics(device, &in), "statistics", device);
    c10::CachingDeviceAllocator::DeviceStats out;
    copy(out.allocation, in.allocation);
    copy(out.segment, in.segment);
    copy(out.active, in.active);
    copy(out.inactive_split, in.inactive_split);
    copy(out.allocated_bytes, in.allocated_bytes);
    copy(out.reserved_bytes, in.reserved_bytes);
    copy(out.active_bytes, in.active_bytes);
    copy(out.inactive_split_bytes, in.inactive_split_bytes);
    copy(out.requested_bytes, in.requested_bytes);
    out.num_alloc_retries = in.num_alloc_retries;
    out.num_ooms = in.num_ooms;
    out.num_sync_all_streams = in.num_sync_all_streams;
    out.num_device_alloc = in.num_device_alloc;
    out.num_device_free = in.num_device_free;
    out.max_split_size = in.max_split_size;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    ensure_ready();
    check(components.allocator.reset_accumulated(device), "reset_accumulated", device);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    ensure_ready();
    check(components.allocator.reset_peak(device), "reset_peak", device);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    ensure_ready();
    uint64_t free = 0, total = 0;
    check(components.allocator.memory_info(device, &free, &total), "memory_info", device);
    return {free, total};
  }
};

Allocator &instance() {
  static Allocator &allocator = *new Allocator; // never destroyed: storages in static objects use it
  return allocator;
}

} // namespace

c10::Allocator *device_allocator() { return &instance(); }

void record_stream(const c10::DataPtr &data, const c10::Stream &stream) {
  if (!data.get()) return;
  ensure_ready();
  // Another context hides the block; it is then found by its address.
  auto *block = data.get_deleter() == &free_block ? static_cast<tb_block *>(data.get_context())
                                                  : components.allocator.find(data.get());
  if (block) check(components.allocator.record_stream(block, from_c10(stream)), "record_stream", stream.device_index());
}

void register_device_allocator() { c10::SetAllocator(device_type, &instance()); }

} // namespace tb::backend
