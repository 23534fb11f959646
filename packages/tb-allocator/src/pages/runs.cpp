// runs.cpp -- all mapped pages of a heap as runs: unmapped for a pause, mapped again with the same bytes, and filled
// for plans.
#include <mutex>
#include <utility>

#include "pages/page_mapper.h"

namespace tb::allocator {

tb_status PageMapper::copy_out(bool backup) {
  find_runs();
  if (!backup) return TB_OK;
  backup_.reset(new char[run_bytes()]);
  return copy_runs(TB_COPY_DEVICE_TO_HOST);
}

// Everything is unmapped, also after a failure.
tb_status PageMapper::unmap_all() {
  tb_status first = TB_OK;
  for (const View &view : views_)
    if (tb_status status = driver_.api->vmm_unmap(driver_.self, address_of(view), store_.page); first == TB_OK)
      first = status;
  for (const Run &run : runs_)
    if (tb_status status = empty_run(run, run.count); first == TB_OK) first = status;
  std::lock_guard guard(store_.lock);
  for (const Run &run : runs_)
    store_.counters.subtract(run.segment->pool->large, Count::reserved_bytes,
                             static_cast<int64_t>(run.count * store_.page));
  return first;
}

tb_status PageMapper::map_all() {
  tb_status status = TB_OK;
  size_t filled = 0, viewed = 0;
  for (; filled < runs_.size() && status == TB_OK; ++filled) status = fill_run(runs_[filled]);
  while (status == TB_OK && viewed < views_.size())
    if (status = map_view(views_[viewed]); status == TB_OK) ++viewed;
  if (status == TB_OK && backup_) status = copy_runs(TB_COPY_HOST_TO_DEVICE);
  if (status != TB_OK) {
    while (viewed) driver_.api->vmm_unmap(driver_.self, address_of(views_[--viewed]), store_.page);
    for (size_t run = 0; run < filled; ++run) empty_run(runs_[run], runs_[run].count);
    return status;
  }
  std::lock_guard guard(store_.lock);
  for (const Run &run : runs_)
    store_.counters.add(run.segment->pool->large, Count::reserved_bytes, static_cast<int64_t>(run.count * store_.page));
  return TB_OK;
}

void PageMapper::forget_runs() noexcept {
  runs_.clear();
  backup_.reset();
}

tb_status PageMapper::fill(Segment &segment) { return fill_run({&segment, 0, segment.size / store_.page}); }

void PageMapper::find_runs() {
  std::lock_guard guard(store_.lock);
  for (auto &[base, segment] : store_.segments) {
    if (!segment.growing) continue;
    uint64_t pages = segment.size / store_.page;
    for (uint64_t first = 0; first < pages; ++first) {
      uint64_t end = first;
      while (end < pages && segment.pages[end]) ++end;
      if (end > first) runs_.push_back({&segment, first, end - first});
      first = end;
    }
  }
}

uint64_t PageMapper::run_bytes() const noexcept {
  uint64_t bytes = 0;
  for (const Run &run : runs_) bytes += run.count * store_.page;
  return bytes;
}

tb_status PageMapper::copy_runs(int32_t kind) {
  tb_stream *stream = driver_.api->groups & TB_GROUP_ASYNC ? store_.default_stream : nullptr;
  char *host_bytes = backup_.get();
  tb_status status = TB_OK;
  for (const Run &run : runs_) {
    char *device_bytes = run.segment->base + run.first * store_.page;
    bool out = kind == TB_COPY_DEVICE_TO_HOST;
    status = driver_.api->mem_copy(driver_.self, source_.device(), stream, out ? host_bytes : device_bytes,
                                   out ? device_bytes : host_bytes, run.count * store_.page, kind);
    if (status != TB_OK) break;
    host_bytes += run.count * store_.page;
  }
  if (!stream) return status;
  tb_status waited = driver_.api->stream_synchronize(
      driver_.self, stream); // also after a failure, because the pages may be destroyed next
  return status != TB_OK ? status : waited;
}

tb_status PageMapper::fill_run(const Run &run) {
  char *start = run.segment->base + run.first * store_.page;
  int32_t device = source_.device();
  uint64_t mapped = 0;
  tb_status status = TB_OK;
  while (mapped < run.count && status == TB_OK) {
    tb_physical *page = nullptr;
    if (status = driver_.api->vmm_create(driver_.self, device, store_.page, 0, &page); status != TB_OK) break;
    if (status = driver_.api->vmm_map(driver_.self, start + mapped * store_.page, store_.page, page, 0);
        status != TB_OK) {
      driver_.api->vmm_destroy(driver_.self, page);
      break;
    }
    run.segment->pages[run.first + mapped++] = page;
  }
  constexpr uint32_t read_and_write = 3;
  if (status == TB_OK)
    status = driver_.api->vmm_set_access(driver_.self, start, run.count * store_.page, &device, 1, read_and_write);
  if (status != TB_OK) empty_run(run, mapped);
  return status;
}

tb_status PageMapper::empty_run(const Run &run, uint64_t count) noexcept {
  if (!count || !run.segment->pages[run.first]) return TB_OK;
  tb_status first =
      driver_.api->vmm_unmap(driver_.self, run.segment->base + run.first * store_.page, count * store_.page);
  for (uint64_t page = run.first; page < run.first + count; ++page) {
    tb_status status = driver_.api->vmm_destroy(driver_.self, std::exchange(run.segment->pages[page], nullptr));
    if (first == TB_OK) first = status;
  }
  return first;
}

} // namespace tb::allocator
