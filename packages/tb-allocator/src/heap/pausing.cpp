// pausing.cpp -- memory goes back to the driver while blocks keep their addresses, and comes back with their bytes.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::pause(bool backup) {
  std::lock_guard growth(growth_);
  int32_t device = source_->device();
  if (!policy_.growing)
    return fail(TB_UNSUPPORTED, device, "pause",
                "only memory in pages keeps its addresses: use an arena that is not contiguous, on a driver with "
                "virtual memory (group VMM)");
  if (policy_.fixed)
    return fail(TB_UNSUPPORTED, device, "pause",
                "a graph's arena keeps its memory: destroy the graph, and capture it again afterwards");
  {
    std::lock_guard guard(lock_);
    if (paused_) return fail(TB_FAILED_PRECONDITION, device, "pause", "the arena is paused already");
    paused_ = 1; // from here on nobody allocates
    update_shut();
  }
  tb_status status = TB_OK;
  try {
    status = release_cached(); // and waits for the device
    if (status == TB_OK) {
      find_runs();
      if (backup) {
        backup_.reset(new char[run_bytes()]);
        status = copy_runs(TB_COPY_DEVICE_TO_HOST);
      }
    }
  } catch (...) {
    go_on();
    throw;
  }
  if (status != TB_OK) {
    go_on();
    return status;
  }
  for (const View &view : views_)
    if (tb_status failed = driver_.api->vmm_unmap(driver_.self, address_of(view), page_);
        failed != TB_OK && status == TB_OK)
      status = failed;
  for (const Run &run : runs_)
    if (tb_status failed = empty_run(run, run.count); failed != TB_OK && status == TB_OK) status = failed;
  std::lock_guard guard(lock_);
  for (const Run &run : runs_)
    counters_.subtract(run.segment->pool->large, Count::reserved_bytes, static_cast<int64_t>(run.count * page_));
  return status;
}

tb_status Heap::resume() {
  std::lock_guard growth(growth_);
  int32_t device = source_->device();
  if (!paused_) return fail(TB_FAILED_PRECONDITION, device, "resume", "the arena is not paused");
  tb_status status = TB_OK;
  size_t filled = 0, viewed = 0;
  for (; filled < runs_.size() && status == TB_OK; ++filled) status = fill_run(runs_[filled]);
  while (status == TB_OK && viewed < views_.size())
    if (status = map_view(views_[viewed]); status == TB_OK) ++viewed;
  if (status == TB_OK && backup_) status = copy_runs(TB_COPY_HOST_TO_DEVICE);
  if (status != TB_OK) { // paused as before
    while (viewed) driver_.api->vmm_unmap(driver_.self, address_of(views_[--viewed]), page_);
    for (size_t run = 0; run < filled; ++run) empty_run(runs_[run], runs_[run].count);
    return status;
  }
  {
    std::lock_guard guard(lock_);
    for (const Run &run : runs_)
      counters_.add(run.segment->pool->large, Count::reserved_bytes, static_cast<int64_t>(run.count * page_));
  }
  go_on();
  return TB_OK;
}

void Heap::go_on() noexcept {
  runs_.clear();
  backup_.reset();
  std::lock_guard guard(lock_);
  paused_ = 0;
  update_shut();
}

void Heap::find_runs() {
  std::lock_guard guard(lock_);
  for (auto &[base, segment] : segments_) {
    if (!segment.growing) continue;
    uint64_t pages = segment.size / page_;
    for (uint64_t first = 0; first < pages; ++first) {
      uint64_t end = first;
      while (end < pages && segment.pages[end]) ++end;
      if (end > first) runs_.push_back({&segment, first, end - first});
      first = end;
    }
  }
}

uint64_t Heap::run_bytes() const noexcept {
  uint64_t bytes = 0;
  for (const Run &run : runs_) bytes += run.count * page_;
  return bytes;
}

tb_status Heap::copy_runs(int32_t kind) {
  tb_stream *stream = driver_.api->groups & TB_GROUP_ASYNC ? default_stream_ : nullptr;
  char *host_bytes = backup_.get();
  tb_status status = TB_OK;
  for (const Run &run : runs_) {
    char *device_bytes = run.segment->base + run.first * page_;
    bool out = kind == TB_COPY_DEVICE_TO_HOST;
    status = driver_.api->mem_copy(driver_.self, source_->device(), stream, out ? host_bytes : device_bytes,
                                   out ? device_bytes : host_bytes, run.count * page_, kind);
    if (status != TB_OK) break;
    host_bytes += run.count * page_;
  }
  if (!stream) return status;
  tb_status waited = driver_.api->stream_synchronize(driver_.self, stream); // also after a failure: pages may go away
  return status != TB_OK ? status : waited;
}

tb_status Heap::fill_run(const Run &run) {
  char *start = run.segment->base + run.first * page_;
  int32_t device = source_->device();
  uint64_t mapped = 0;
  tb_status status = TB_OK;
  while (mapped < run.count && status == TB_OK) {
    tb_physical *page = nullptr;
    if (status = driver_.api->vmm_create(driver_.self, device, page_, 0, &page); status != TB_OK) break;
    if (status = driver_.api->vmm_map(driver_.self, start + mapped * page_, page_, page, 0); status != TB_OK) {
      driver_.api->vmm_destroy(driver_.self, page);
      break;
    }
    run.segment->pages[run.first + mapped++] = page;
  }
  constexpr uint32_t read_and_write = 3;
  if (status == TB_OK)
    status = driver_.api->vmm_set_access(driver_.self, start, run.count * page_, &device, 1, read_and_write);
  if (status != TB_OK) empty_run(run, mapped);
  return status;
}

tb_status Heap::empty_run(const Run &run, uint64_t count) noexcept {
  if (!count || !run.segment->pages[run.first]) return TB_OK;
  tb_status first = driver_.api->vmm_unmap(driver_.self, run.segment->base + run.first * page_, count * page_);
  for (uint64_t page = run.first; page < run.first + count; ++page) {
    tb_status status = driver_.api->vmm_destroy(driver_.self, std::exchange(run.segment->pages[page], nullptr));
    if (first == TB_OK) first = status;
  }
  return first;
}

} // namespace tb::allocator
