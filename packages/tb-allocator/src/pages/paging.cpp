// paging.cpp -- memory for a request that no free block fits: a gap of addresses, and pages mapped into it.
//
// A gap is a row of free and unmapped blocks, so a request needs pages only for what is not mapped. It is put where it
// needs few: at the largest free blocks, which it begins or ends with.
#include <algorithm>

#include "heap/heap.h"

namespace tb::allocator {

tb_status Heap::grow_range(const Request &request, bool beyond_soft_limit, tb_block **out) {
  retire_all();
  if (!policy_.fixed) look_at_others(request.stream, page_);
  Pool *pool = nullptr;
  Gap gap;
  tb_block *spare = nullptr;
  for (bool reserved = false; !spare; reserved = true) {
    {
      std::lock_guard guard(lock_);
      pool = &pool_of(request.stream, request.rounded > policy_.small_limit);
      if (page_ && find_gap(*pool, request.rounded, &gap)) {
        tb_block *records[3];
        blocks_.take(records);
        spare = records[2];
        tb_block *rests[2] = {records[0], records[1]};
        hold(gap, rests);
      }
    }
    if (spare) break;
    if (reserved) return TB_OUT_OF_MEMORY; // more than a whole range
    if (tb_status status = reserve_range(*pool); status != TB_OK) return status;
  }
  auto undo = [&] {
    {
      std::lock_guard guard(lock_);
      blocks_.give(spare);
      put_back(gap);
    }
    drop_harvest();
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
  std::lock_guard guard(lock_);
  constexpr uint32_t looks = 16;
  if (!harvest_.pieces.empty()) looks_left_ = looks;
  use_harvest(*pool);
  for (tb_block *one = gap.first;; one = one->next) {
    char *base = one->segment->base, *from = std::max(one->pointer, base + gap.from);
    char *to = std::min(one->pointer + one->size, base + gap.to);
    if (one->state == BlockState::unmapped && from < to)
      history_.record(Action::map, from, static_cast<uint64_t>(to - from), pool->stream);
    if (one == gap.last) break;
  }
  tb_block *block = fill(gap, *pool, spare);
  block->stamp = std::max(block->stamp, stamp);
  *out = take(put(block), request.rounded, request.size);
  return TB_OK;
}

void Heap::drop_harvest() noexcept {
  {
    std::lock_guard guard(lock_);
    put_back(harvest_.pieces);
  }
  for (tb_physical *page : harvest_.fresh) driver_.api->vmm_destroy(driver_.self, page);
  harvest_ = {};
}

void Heap::use_harvest(Pool &pool) noexcept {
  for (Piece &piece : harvest_.pieces) {
    Pool &donor = *piece.block->pool;
    counters_.subtract(donor.large, Count::reserved_bytes, static_cast<int64_t>(piece.to - piece.from));
    uint64_t freed = piece.block->stamp;
    tb_block *stale = carve(piece, BlockState::stale);
    donor.timeline->retired.push_back({stale, freed}); // gather reserved the room
    ++stale_;
  }
  if (!harvest_.fresh.empty()) ++counters_.device_alloc;
  counters_.add(pool.large, Count::reserved_bytes, static_cast<int64_t>(harvest_.pages * page_));
  harvest_.pieces.clear();
  harvest_.fresh.clear();
  harvest_.pages = 0;
}

// Whether it is free and may be used by work that this pool's stream gets next.
static bool is_open_to(const Pool &pool, const tb_block *block) {
  return block->state == BlockState::free &&
         (block->pool->stream == pool.stream || block->stamp <= block->pool->timeline->passed);
}

bool Heap::find_gap(Pool &pool, uint64_t size, Gap *out) {
  constexpr int own_looks = 8, other_looks = 4; // seeds of a stream: bounds the time, and costs nothing on the traces
  Gap best;
  uint64_t least = UINT64_MAX; // bytes to map
  auto open = [&](const tb_block *block) {
    return block && (block->state == BlockState::unmapped || is_open_to(pool, block));
  };
  // Whether the gap that begins or ends with the seed needs the fewest pages so far.
  auto consider = [&](tb_block *seed, bool begins) {
    uint64_t unmapped = 0, left = size;
    for (tb_block *block = seed; open(block); block = begins ? block->next : block->previous) {
      if (block->state == BlockState::unmapped)
        unmapped += std::min(block->size, (left + page_ - 1) & ~(page_ - 1)); // a request takes whole pages of a hole
      if (unmapped >= least) return;
      if (block->size >= left) {
        char *start = begins ? seed->pointer : seed->pointer + seed->size - size;
        auto from = static_cast<uint64_t>(start - seed->segment->base);
        least = unmapped;
        best = {begins ? seed : block, begins ? block : seed, from & ~(page_ - 1),
                (from + size + page_ - 1) & ~(page_ - 1), unmapped / page_};
        return;
      }
      left -= block->size;
    }
  };
  for (auto &pools : pools_) {
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
  if (least >= size) { // nothing of it is mapped: the hole that fits best
    tb_block *fit = nullptr;
    for (tb_block *hole : holes_[pool.large])
      if (hole->size >= size && (!fit || hole->size < fit->size)) fit = hole;
    if (fit) consider(fit, true);
  }
  *out = best;
  return best.first;
}

// What the ends of a gap have beyond it stays free, and may give pages to it.
void Heap::hold(const Gap &gap, tb_block *(&rests)[2]) noexcept {
  for (tb_block *block = gap.first;; block = block->next) {
    if (block->state == BlockState::free) take_out(block);
    if (block == gap.last) break;
  }
  char *from = gap.first->segment->base + gap.from, *to = gap.first->segment->base + gap.to;
  auto cut = [&](tb_block *block, tb_block *&rest, char *start, char *end) {
    if (block->state != BlockState::held || start >= end) return false;
    *rest = {};
    rest->pointer = start;
    rest->size = static_cast<uint64_t>(end - start);
    rest->segment = block->segment;
    rest->pool = block->pool;
    rest->stamp = block->stamp;
    rest->state = BlockState::held;
    block->size -= rest->size;
    return true;
  };
  if (cut(gap.first, rests[0], gap.first->pointer, from)) {
    gap.first->pointer = from;
    insert_before(gap.first, rests[0]);
    put(std::exchange(rests[0], nullptr));
  }
  if (cut(gap.last, rests[1], to, gap.last->pointer + gap.last->size)) {
    insert_after(gap.last, rests[1]);
    put(std::exchange(rests[1], nullptr));
  }
  for (tb_block *rest : rests)
    if (rest) blocks_.give(rest);
}

void Heap::put_back(const Gap &gap) noexcept {
  for (tb_block *block = gap.first, *next;; block = next) {
    bool end = block == gap.last;
    next = block->next;
    if (block->state == BlockState::held) put(block); // between holes: it merges at most beyond the gap's ends
    if (end) break;
  }
}

// Maps pages at one address after another and notes them in `places`; gives how many it could. A function of its own, so
// that the loop has all it needs in registers: where memory moves there are more pages than requests.
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

tb_status Heap::map(const Gap &gap) {
  Segment &segment = *gap.first->segment;
  tb_physical **next = harvest_.fresh.data(), **source_end = next + harvest_.fresh.size();
  size_t piece = 0;
  const tb_driver_api &api = *driver_.api;
  int32_t device = source_->device();
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
      tb_physical **place = &segment.pages[run.from / page_];
      while (address < end && status == TB_OK) {
        if (next == source_end) { // gather has found enough
          const Piece &one = harvest_.pieces[piece++];
          tb_physical **pages = one.block->segment->pages.get();
          next = pages + one.from / page_;
          source_end = pages + one.to / page_;
        }
        auto count = std::min(static_cast<size_t>(end - address) / page_, static_cast<size_t>(source_end - next));
        count = map_pages(driver_, address, page_, next, count, place, &status);
        address += count * page_;
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
    for (Piece &one : harvest_.pieces)
      std::fill_n(&one.block->segment->pages[one.from / page_], (one.to - one.from) / page_, nullptr);
    return TB_OK;
  }
  for (Run &run : runs) {
    if (run.from == run.to) continue;
    driver_.api->vmm_unmap(driver_.self, segment.base + run.from, run.to - run.from);
    std::fill_n(&segment.pages[run.from / page_], (run.to - run.from) / page_, nullptr);
  }
  return status;
}

tb_block *Heap::fill(const Gap &gap, Pool &pool, tb_block *spare) noexcept {
  Segment &segment = *gap.first->segment;
  tb_block *first = gap.first, *last = gap.last;
  char *from = segment.base + gap.from, *to = segment.base + gap.to;
  // Free neighbours are taken out while a hole still counts as no neighbour. Those of streams that have not passed them
  // are put back as they were.
  tb_block *others[2] = {};
  if (tb_block *before = first->previous;
      first->state == BlockState::unmapped && first->pointer >= from && before && before->state == BlockState::free) {
    bool joins = is_open_to(pool, before);
    take_out(before);
    (joins ? first : others[0]) = before;
  }
  if (tb_block *after = last->next; last->state == BlockState::unmapped && last->pointer + last->size <= to && after &&
                                    after->state == BlockState::free) {
    bool joins = is_open_to(pool, after);
    take_out(after);
    (joins ? last : others[1]) = after;
  }
  // Holes reach beyond the mapped pages at one end only: the other is the gap's own.
  char *start = first->state == BlockState::unmapped ? std::max(first->pointer, from) : first->pointer;
  char *end = last->pointer + last->size;
  if (last->state == BlockState::unmapped) end = std::min(end, to);
  tb_block *block = spare;
  *block = {};
  block->pointer = start;
  block->size = static_cast<uint64_t>(end - start);
  block->segment = &segment;
  block->pool = &pool;
  block->state = BlockState::held;
  bool rest_before = start > first->pointer, rest_after = end < last->pointer + last->size;
  if (rest_before)
    insert_after(first, block);
  else
    insert_before(first, block);
  for (tb_block *one = rest_before ? block->next : first, *next;; one = next) {
    bool at_end = one == last;
    next = one->next;
    if (one->state == BlockState::held && one->pool == &pool) block->stamp = std::max(block->stamp, one->stamp);
    if (at_end && rest_after) {
      one->size = static_cast<uint64_t>(one->pointer + one->size - end);
      one->pointer = end;
    } else {
      if (one->state == BlockState::unmapped) remove_hole(one);
      unlink(one);
    }
    if (at_end) break;
  }
  if (rest_before) first->size = static_cast<uint64_t>(start - first->pointer);
  for (tb_block *other : others)
    if (other) put(other);
  return block;
}

} // namespace tb::allocator
