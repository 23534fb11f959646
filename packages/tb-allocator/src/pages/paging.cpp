// paging.cpp -- memory for a request that no free block fits: a gap of addresses, and pages mapped into it.
//
// The gap begins or ends with one of the largest free blocks, so that few pages have to be mapped.
#include <algorithm>
#include <mutex>
#include <utility>

#include "pages/page_mapper.h"

namespace tb::allocator {

tb_status PageMapper::grow_range(const Request &request, bool beyond_soft_limit, tb_block **out) {
  retire_all();
  if (!store_.policy.fixed) look_at_others(request.stream, store_.page);
  Pool *pool = nullptr;
  Gap gap;
  tb_block *spare = nullptr;
  for (bool reserved = false; !spare; reserved = true) {
    {
      std::lock_guard guard(store_.lock);
      pool = &store_.pool_of(request.stream, request.rounded > store_.policy.small_limit);
      if (store_.page && find_gap(*pool, request.rounded, &gap)) {
        tb_block *records[3];
        store_.records.take(records);
        spare = records[2];
        tb_block *remainders[2] = {records[0], records[1]};
        reserve(gap, remainders);
      }
    }
    if (spare) break;
    if (reserved) return TB_OUT_OF_MEMORY; // the request is larger than a whole range
    if (tb_status status = reserve_range(*pool); status != TB_OK) return status;
  }
  auto undo = [&] {
    {
      std::lock_guard guard(store_.lock);
      store_.records.release(spare);
      insert(gap);
    }
    drop_batch();
  };
  uint64_t stamp = 0;
  try {
    tb_status status = gather(request, gap.pages, beyond_soft_limit, &stamp);
    if (status == TB_OK) status = map(gap);
    if (status != TB_OK) {
      undo();
      return status;
    }
  } catch (const std::bad_alloc &) {
    undo();
    throw;
  }
  std::lock_guard guard(store_.lock);
  constexpr uint32_t looks = 16;
  if (!batch_.pieces.empty()) looks_left_ = looks;
  count_batch(*pool);
  for (tb_block *one = gap.first;; one = one->next) {
    char *base = one->segment->base, *from = std::max(one->pointer, base + gap.from);
    char *to = std::min(one->pointer + one->size, base + gap.to);
    if (one->state == BlockState::unmapped && from < to)
      store_.history.record(Action::map, from, static_cast<uint64_t>(to - from), pool->stream);
    if (one == gap.last) break;
  }
  tb_block *block = make_block(gap, *pool, spare);
  block->stamp = std::max(block->stamp, stamp);
  *out = store_.allocate_from(store_.insert(block), request.rounded, request.size);
  return TB_OK;
}

void PageMapper::drop_batch() noexcept {
  {
    std::lock_guard guard(store_.lock);
    insert(batch_.pieces);
  }
  for (tb_physical *page : batch_.fresh) driver_.api->vmm_destroy(driver_.self, page);
  batch_ = {};
}

void PageMapper::count_batch(Pool &pool) noexcept {
  for (Piece &piece : batch_.pieces) {
    Pool &donor = *piece.block->pool;
    store_.counters.subtract(donor.large, Count::reserved_bytes, static_cast<int64_t>(piece.to - piece.from));
    uint64_t freed = piece.block->stamp;
    tb_block *stale = split(piece, BlockState::stale);
    donor.timeline->retired.push_back({stale, freed}); // gather() reserved the room
    ++stale_;
  }
  if (!batch_.fresh.empty()) ++store_.counters.device_alloc;
  store_.counters.add(pool.large, Count::reserved_bytes, static_cast<int64_t>(batch_.pages * store_.page));
  batch_.pieces.clear();
  batch_.fresh.clear();
  batch_.pages = 0;
}

// Whether the block is free, and work that is queued next on this pool's stream may use it.
static bool is_open_to(const Pool &pool, const tb_block *block) {
  return block->state == BlockState::free &&
         (block->pool->stream == pool.stream || block->stamp <= block->pool->timeline->passed);
}

bool PageMapper::find_gap(Pool &pool, uint64_t size, Gap *out) {
  // Blocks of a stream to begin or end with. The limits bound the time, and change no result on the traces.
  constexpr int own_looks = 8, other_looks = 4;
  const uint64_t page = store_.page;
  Gap best;
  uint64_t least = UINT64_MAX; // bytes to map
  auto open = [&](const tb_block *block) {
    return block && (block->state == BlockState::unmapped || is_open_to(pool, block));
  };
  // Takes the gap that begins or ends with the seed, if it needs the fewest pages so far.
  auto consider = [&](tb_block *seed, bool begins) {
    uint64_t unmapped = 0, left = size;
    for (tb_block *block = seed; open(block); block = begins ? block->next : block->previous) {
      if (block->state == BlockState::unmapped)
        unmapped += std::min(block->size, (left + page - 1) & ~(page - 1)); // a request takes whole pages of a hole
      if (unmapped >= least) return;
      if (block->size >= left) {
        char *start = begins ? seed->pointer : seed->pointer + seed->size - size;
        auto from = static_cast<uint64_t>(start - seed->segment->base);
        least = unmapped;
        best = {begins ? seed : block, begins ? block : seed, from & ~(page - 1),
                (from + size + page - 1) & ~(page - 1), unmapped / page};
        return;
      }
      left -= block->size;
    }
  };
  for (auto &pools : store_.pools) {
    Pool &donor = pool.large ? pools->large : pools->small;
    int looks = &donor == &pool ? own_looks : other_looks;
    donor.bins.descend([&](tb_block *seed) {
      if (least < size && seed->size * 2 < size - least) return true; // too small to do much better
      if (is_open_to(pool, seed)) {
        consider(seed, true);
        consider(seed, false);
      }
      return --looks <= 0;
    });
  }
  if (least >= size) { // no free block helps: take the hole that fits best
    tb_block *fit = nullptr;
    for (tb_block *hole : holes_[pool.large])
      if (hole->size >= size && (!fit || hole->size < fit->size)) fit = hole;
    if (fit) consider(fit, true);
  }
  *out = best;
  return best.first;
}

// The parts of the first and of the last block that are beyond the gap stay free; the gap may get their pages.
void PageMapper::reserve(const Gap &gap, tb_block *(&remainders)[2]) noexcept {
  for (tb_block *block = gap.first;; block = block->next) {
    if (block->state == BlockState::free) store_.reserve(block);
    if (block == gap.last) break;
  }
  char *from = gap.first->segment->base + gap.from, *to = gap.first->segment->base + gap.to;
  auto split_off = [&](tb_block *block, tb_block *&remainder, char *start, char *end) {
    if (block->state != BlockState::reserved || start >= end) return false;
    *remainder = {};
    remainder->pointer = start;
    remainder->size = static_cast<uint64_t>(end - start);
    remainder->segment = block->segment;
    remainder->pool = block->pool;
    remainder->stamp = block->stamp;
    remainder->state = BlockState::reserved;
    block->size -= remainder->size;
    return true;
  };
  if (split_off(gap.first, remainders[0], gap.first->pointer, from)) {
    gap.first->pointer = from;
    store_.insert_before(gap.first, remainders[0]);
    store_.insert(std::exchange(remainders[0], nullptr));
  }
  if (split_off(gap.last, remainders[1], to, gap.last->pointer + gap.last->size)) {
    store_.insert_after(gap.last, remainders[1]);
    store_.insert(std::exchange(remainders[1], nullptr));
  }
  for (tb_block *remainder : remainders)
    if (remainder) store_.records.release(remainder);
}

void PageMapper::insert(const Gap &gap) noexcept {
  for (tb_block *block = gap.first, *next;; block = next) {
    bool end = block == gap.last;
    next = block->next;
    if (block->state == BlockState::reserved)
      store_.insert(block); // it can merge only with a block beyond the gap's ends
    if (end) break;
  }
}

// Maps pages at one address after another and stores them in `places`; returns how many could be mapped. It is not
// inlined, so that the loop keeps its variables in registers: where pages move, there are more pages than requests.
[[gnu::noinline]] static size_t map_pages(const Driver &driver, char *address, uint64_t page,
                                          tb_physical *const *physicals, size_t count, tb_physical **places,
                                          tb_status *status) {
  auto *const map = driver.api->vmm_map;
  tb_driver *const self = driver.self;
  for (size_t i = 0; i < count; ++i, address += page) {
    tb_physical *physical = physicals[i];
    if (tb_status failure = map(self, address, page, physical, 0); failure != TB_OK) [[unlikely]] {
      *status = failure;
      return i;
    }
    places[i] = physical;
  }
  return count;
}

tb_status PageMapper::map(const Gap &gap) {
  Segment &segment = *gap.first->segment;
  tb_physical **next = batch_.fresh.data(), **source_end = next + batch_.fresh.size();
  size_t piece = 0;
  const tb_driver_api &api = *driver_.api;
  const uint64_t page = store_.page;
  int32_t device = source_.device();
  constexpr uint32_t read_and_write = 3;
  struct Run {
    uint64_t from, to;
  };
  std::vector<Run> runs;
  tb_status status = TB_OK;
  for (tb_block *block = gap.first; status == TB_OK; block = block->next) {
    auto start = static_cast<uint64_t>(block->pointer - segment.base);
    Run run{std::max(start, gap.from), std::min(start + block->size, gap.to)};
    if (block->state == BlockState::unmapped && run.from < run.to) {
      runs.push_back({run.from, run.from});
      char *address = segment.base + run.from, *end = segment.base + run.to;
      tb_physical **place = &segment.pages[run.from / page];
      while (address < end && status == TB_OK) {
        if (next == source_end) { // gather() found enough
          const Piece &one = batch_.pieces[piece++];
          tb_physical **pages = one.block->segment->pages.get();
          next = pages + one.from / page;
          source_end = pages + one.to / page;
        }
        auto count = std::min(static_cast<size_t>(end - address) / page, static_cast<size_t>(source_end - next));
        count = map_pages(driver_, address, page, next, count, place, &status);
        address += count * page;
        place += count;
        next += count;
      }
      runs.back().to = static_cast<uint64_t>(address - segment.base);
      if (status == TB_OK)
        status =
            api.vmm_set_access(driver_.self, segment.base + run.from, run.to - run.from, &device, 1, read_and_write);
    }
    if (block == gap.last) break;
  }
  if (status == TB_OK) {
    for (Piece &one : batch_.pieces)
      std::fill_n(&one.block->segment->pages[one.from / page], (one.to - one.from) / page, nullptr);
    return TB_OK;
  }
  for (Run &run : runs) {
    if (run.from == run.to) continue;
    driver_.api->vmm_unmap(driver_.self, segment.base + run.from, run.to - run.from);
    std::fill_n(&segment.pages[run.from / page], (run.to - run.from) / page, nullptr);
  }
  return status;
}

tb_block *PageMapper::make_block(const Gap &gap, Pool &pool, tb_block *spare) noexcept {
  Segment &segment = *gap.first->segment;
  tb_block *first = gap.first, *last = gap.last;
  char *from = segment.base + gap.from, *to = segment.base + gap.to;
  // Free neighbours leave their bins while the hole still separates them from the gap. Those that this stream may not
  // use yet are inserted again at the end.
  tb_block *others[2] = {};
  if (tb_block *before = first->previous;
      first->state == BlockState::unmapped && first->pointer >= from && before && before->state == BlockState::free) {
    bool joins = is_open_to(pool, before);
    store_.reserve(before);
    (joins ? first : others[0]) = before;
  }
  if (tb_block *after = last->next; last->state == BlockState::unmapped && last->pointer + last->size <= to && after &&
                                    after->state == BlockState::free) {
    bool joins = is_open_to(pool, after);
    store_.reserve(after);
    (joins ? last : others[1]) = after;
  }
  // A hole reaches beyond the mapped pages at one end only: its other end is the end of the gap.
  char *start = first->state == BlockState::unmapped ? std::max(first->pointer, from) : first->pointer;
  char *end = last->pointer + last->size;
  if (last->state == BlockState::unmapped) end = std::min(end, to);
  tb_block *block = spare;
  *block = {};
  block->pointer = start;
  block->size = static_cast<uint64_t>(end - start);
  block->segment = &segment;
  block->pool = &pool;
  block->state = BlockState::reserved;
  bool remains_before = start > first->pointer, remains_after = end < last->pointer + last->size;
  if (remains_before)
    store_.insert_after(first, block);
  else
    store_.insert_before(first, block);
  for (tb_block *one = remains_before ? block->next : first, *next;; one = next) {
    bool at_end = one == last;
    next = one->next;
    if (one->state == BlockState::reserved && one->pool == &pool) block->stamp = std::max(block->stamp, one->stamp);
    if (at_end && remains_after) {
      one->size = static_cast<uint64_t>(one->pointer + one->size - end);
      one->pointer = end;
    } else {
      if (one->state == BlockState::unmapped) remove_hole(one);
      store_.erase(one);
    }
    if (at_end) break;
  }
  if (remains_before) first->size = static_cast<uint64_t>(start - first->pointer);
  for (tb_block *other : others)
    if (other) store_.insert(other);
  return block;
}

} // namespace tb::allocator
