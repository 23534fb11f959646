// emulated.cpp -- the calls of the driver without memory.
#include "replay/emulated.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tb::allocator {
namespace {

constexpr int range_shift = 44; // each reservation has this many bits of address for itself

[[noreturn, gnu::cold, gnu::noinline]] void stop(const char *rule) {
  fprintf(stderr, "tb-allocator: the emulated driver saw a broken rule: %s. Please report this.\n", rule);
  abort();
}

inline void require(bool condition, const char *rule) {
  if (!condition) [[unlikely]]
    stop(rule);
}

tb_status charge(tb_driver *self, uint64_t size) {
  if (size > self->capacity || self->used > self->capacity - size)
    return fail(TB_OUT_OF_MEMORY, 0, "emulated", "the emulated device is full");
  self->used += size;
  self->peak = std::max(self->peak, self->used);
  return TB_OK;
}

void drop(tb_driver *self, tb_physical *physical) {
  if (--physical->references) return;
  self->used -= physical->size;
  delete physical;
}

[[gnu::noinline]] const tb_driver::Range *range_of(tb_driver *self, uint64_t address) {
  uint64_t index = (address >> range_shift) - 1;
  require(index < self->ranges.size(), "the address is in a reservation");
  return self->recent = &self->ranges[index];
}

// The pages of a part of a reservation.
inline tb_driver::Page *pages_of(tb_driver *self, void *address, uint64_t size) {
  auto value = reinterpret_cast<uint64_t>(address);
  const tb_driver::Range *range = self->recent;
  if (value - range->base >= range->size) [[unlikely]]
    range = range_of(self, value);
  uint64_t offset = value - range->base;
  require((offset | size) % emulated_page == 0 && size > 0, "sizes are multiples of a page");
  require(offset + size <= range->size, "the range is in one reservation");
  return &range->pages[offset / emulated_page];
}

tb_status take(tb_driver *self, tb_driver::Call call, uint64_t size, void **out) {
  ++self->calls[call];
  if (tb_status status = charge(self, size); status != TB_OK) return status;
  *out = reinterpret_cast<void *>(self->next_block);
  self->next_block += (size + emulated_page - 1) / emulated_page * emulated_page;
  self->blocks[*out] = size;
  return TB_OK;
}

tb_status give(tb_driver *self, tb_driver::Call call, void *pointer) {
  ++self->calls[call];
  auto found = self->blocks.find(pointer);
  require(found != self->blocks.end(), "only allocated memory is freed");
  self->used -= found->second;
  self->blocks.erase(found);
  return TB_OK;
}

tb_status mem_alloc(tb_driver *self, int32_t, uint64_t size, uint64_t, void **out) {
  return take(self, tb_driver::allocate, size, out);
}
tb_status mem_free(tb_driver *self, int32_t, void *pointer) { return give(self, tb_driver::free, pointer); }
tb_status mem_alloc_host(tb_driver *self, int32_t, uint64_t size, uint64_t, void **out) {
  return take(self, tb_driver::pin, size, out);
}
tb_status mem_free_host(tb_driver *self, void *pointer) { return give(self, tb_driver::unpin, pointer); }

tb_status granularity(tb_driver *, int32_t, uint64_t *least, uint64_t *recommended) {
  *least = *recommended = emulated_page;
  return TB_OK;
}

tb_status reserve(tb_driver *self, uint64_t size, uint64_t, void *, void **out) {
  ++self->calls[tb_driver::reserve];
  require(size <= uint64_t{1} << range_shift, "a reservation is smaller than 16 TiB");
  *out = reinterpret_cast<void *>((self->ranges.size() + 1) << range_shift);
  auto &range = self->ranges.emplace_back();
  self->recent = &tb_driver::none;
  range.base = reinterpret_cast<uint64_t>(*out);
  range.size = size;
  range.pages.reset(static_cast<tb_driver::Page *>(calloc(size / emulated_page + 1, sizeof(tb_driver::Page))));
  if (!range.pages) throw std::bad_alloc();
  return TB_OK;
}

tb_status release(tb_driver *self, void *address, uint64_t size) {
  ++self->calls[tb_driver::release];
  tb_driver::Page *pages = pages_of(self, address, size);
  auto &range = self->ranges[(reinterpret_cast<uint64_t>(address) >> range_shift) - 1];
  require(pages == range.pages.get() && size == range.size, "a whole reservation is released");
  for (size_t page = 0; page < size / emulated_page; ++page)
    require(!pages[page].memory, "a reservation is released without mappings");
  range = {};
  self->recent = &tb_driver::none;
  return TB_OK;
}

tb_status create(tb_driver *self, int32_t, uint64_t size, uint64_t, tb_physical **out) {
  ++self->calls[tb_driver::create];
  require(size && size % emulated_page == 0, "physical memory has whole pages");
  if (tb_status status = charge(self, size); status != TB_OK) return status;
  *out = new tb_physical{size, 1};
  return TB_OK;
}

tb_status destroy(tb_driver *self, tb_physical *physical) {
  ++self->calls[tb_driver::destroy];
  drop(self, physical);
  return TB_OK;
}

tb_status map(tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
  ++self->calls[tb_driver::map];
  require(offset + size <= physical->size, "a mapping is inside its memory");
  tb_driver::Page *first = pages_of(self, address, size);
  ++physical->references;
  require(!first->memory, "nothing is mapped twice at one address");
  *first = {physical, static_cast<uint32_t>(size / emulated_page)};
  for (uint32_t page = 1; page < first->length; ++page) {
    require(!first[page].memory, "nothing is mapped twice at one address");
    first[page].memory = physical;
  }
  return TB_OK;
}

tb_status unmap(tb_driver *self, void *address, uint64_t size) {
  ++self->calls[tb_driver::unmap];
  tb_driver::Page *page = pages_of(self, address, size), *end = page + size / emulated_page;
  while (page < end) {
    require(page->length, "whole mappings are taken away");
    tb_driver::Page *next = page + page->length;
    require(next <= end, "whole mappings are taken away");
    drop(self, page->memory);
    *page = {};
    while (++page < next) page->memory = nullptr;
  }
  return TB_OK;
}

tb_status set_access(tb_driver *self, void *address, uint64_t size, const int32_t *, uint32_t, uint32_t) {
  ++self->calls[tb_driver::access];
  tb_driver::Page *pages = pages_of(self, address, size);
  for (size_t page = 0; page < size / emulated_page; ++page)
    require(pages[page].memory, "access is set to mapped pages");
  return TB_OK;
}

tb_status event_create(tb_driver *self, int32_t, uint64_t, tb_event **out) {
  *out = new tb_event{self};
  return TB_OK;
}
tb_status event_destroy(tb_driver *, tb_event *event) {
  delete event;
  return TB_OK;
}
tb_status event_record(tb_driver *self, tb_event *event, tb_stream *stream) {
  ++self->calls[tb_driver::record];
  event->done = std::max(self->now + self->lag, stream->waited);
  return TB_OK;
}
tb_status event_query(tb_driver *self, tb_event *event) {
  ++self->calls[tb_driver::query];
  return event->done <= self->now || event->done <= self->done ? TB_OK : TB_NOT_READY;
}
tb_status event_synchronize(tb_driver *self, tb_event *event) {
  ++self->calls[tb_driver::sync];
  self->done = std::max(self->done, event->done);
  return TB_OK;
}
tb_status stream_wait_event(tb_driver *self, tb_stream *stream, tb_event *event) {
  ++self->calls[tb_driver::wait];
  stream->waited = std::max(stream->waited, event->done);
  return TB_OK;
}
tb_status stream_synchronize(tb_driver *self, tb_stream *stream) {
  ++self->calls[tb_driver::sync];
  self->done = std::max({self->done, self->now + self->lag, stream->waited});
  return TB_OK;
}
tb_status device_synchronize(tb_driver *self, int32_t) {
  ++self->calls[tb_driver::sync];
  self->done = std::max(self->done, self->now + 2 * self->lag); // also for streams that wait for others
  return TB_OK;
}
tb_status stream_default(tb_driver *self, int32_t, tb_stream **out) {
  *out = &self->standard;
  return TB_OK;
}
tb_status memory_info(tb_driver *self, int32_t, uint64_t *out_free, uint64_t *out_total) {
  *out_free = self->capacity - self->used;
  *out_total = self->capacity;
  return TB_OK;
}

tb_driver_api make_api() {
  tb_driver_api api{};
  api.struct_size = sizeof api;
  api.groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_VMM;
  api.mem_alloc = mem_alloc;
  api.mem_free = mem_free;
  api.mem_alloc_host = mem_alloc_host;
  api.mem_free_host = mem_free_host;
  api.device_memory_info = memory_info;
  api.device_synchronize = device_synchronize;
  api.stream_default = stream_default;
  api.stream_synchronize = stream_synchronize;
  api.stream_wait_event = stream_wait_event;
  api.event_create = event_create;
  api.event_destroy = event_destroy;
  api.event_record = event_record;
  api.event_query = event_query;
  api.event_synchronize = event_synchronize;
  api.vmm_granularity = granularity;
  api.vmm_reserve = reserve;
  api.vmm_release = release;
  api.vmm_create = create;
  api.vmm_destroy = destroy;
  api.vmm_map = map;
  api.vmm_unmap = unmap;
  api.vmm_set_access = set_access;
  return api;
}

} // namespace

const tb_driver_api &emulated_api() {
  static const tb_driver_api api = make_api();
  return api;
}

} // namespace tb::allocator

tb_physical *tb_driver::page_at(uint64_t address) const {
  uint64_t range = (address >> tb::allocator::range_shift) - 1;
  uint64_t page = (address & ((uint64_t{1} << tb::allocator::range_shift) - 1)) / tb::allocator::emulated_page;
  if (range >= ranges.size() || page >= ranges[range].size / tb::allocator::emulated_page) return nullptr;
  return ranges[range].pages[page].memory;
}

const tb_driver::Range tb_driver::none;
