// shadow.h -- remembers which streams still use freed bytes, by address and by memory, to check that such bytes are not
// allocated again.
#pragma once
#include <algorithm>
#include <map>
#include <vector>

#include "fake_driver.h"

namespace {

struct Passed { // a point that a stream must pass before other streams may use the bytes
  tb_stream *stream;
  uint64_t position;
};
struct Live {
  tb_block *block;
  char *pointer;
  uint64_t size;
  tb_stream *stream;
  std::vector<tb_stream *> uses;
  uint8_t mark;
};

struct Extent {
  uint64_t start, size;
  bool overlaps(const Extent &other) const { return start < other.start + other.size && other.start < start + size; }
};

// The memory of an address range: parts of the fake device's file, or the addresses themselves.
[[maybe_unused]] std::vector<Extent> memory_of(char *pointer, uint64_t size) {
  std::lock_guard guard(fake::world.mutex);
  std::vector<Extent> extents;
  for (char *end = pointer + size; pointer < end;) {
    auto after = fake::world.mapped.upper_bound(pointer);
    uint64_t rest = static_cast<uint64_t>(end - pointer);
    if (after == fake::world.mapped.begin() || pointer >= std::prev(after)->first + std::prev(after)->second->size) {
      extents.push_back({reinterpret_cast<uint64_t>(pointer), rest});
      break;
    }
    auto &[base, physical] = *std::prev(after);
    auto inside = static_cast<uint64_t>(pointer - base);
    uint64_t part = std::min(rest, physical->size - inside);
    extents.push_back({physical->offset + inside, part});
    pointer += part;
  }
  return extents;
}

// The freed bytes that streams may still use.
class Shadow {
public:
  void freed(const Live &live) {
    forget();
    Range range{{reinterpret_cast<uint64_t>(live.pointer), live.size}, memory_of(live.pointer, live.size), {}};
    range.after.push_back({live.stream, live.stream->queued});
    for (tb_stream *stream : live.uses) range.after.push_back({stream, stream->queued});
    ranges_.push_back(range);
  }
  void allocated(const Live &live) {
    Positions known = known_to(live.stream);
    for (const Extent &extent : memory_of(live.pointer, live.size))
      for (const Range &range : ranges_)
        for (const Extent &old : range.memory)
          if (extent.overlaps(old))
            for (const Passed &passed : range.after)
              CHECK(passed.stream->done >= passed.position || known[passed.stream] >= passed.position);
  }
  void unmapped(char *address, uint64_t size) {
    for (const Range &range : ranges_)
      if (range.addresses.overlaps({reinterpret_cast<uint64_t>(address), size}))
        for (const Passed &passed : range.after) CHECK(passed.stream->done >= passed.position);
  }

private:
  struct Range {
    Extent addresses;
    std::vector<Extent> memory;
    std::vector<Passed> after;
  };
  using Positions = std::map<tb_stream *, uint64_t>;
  // The positions that other streams reach before `next` continues, because it waits for them directly or indirectly.
  static Positions known_to(tb_stream *next) {
    Positions known{{next, UINT64_MAX}};
    for (bool more = true; more;) {
      more = false;
      for (auto [stream, until] : Positions(known))
        for (const tb_stream::Wait &wait : stream->waits)
          if (wait.position <= until && known[wait.other] < wait.other_position) {
            known[wait.other] = wait.other_position;
            more = true;
          }
    }
    return known;
  }
  void forget() {
    std::erase_if(ranges_, [](const Range &range) {
      return std::all_of(range.after.begin(), range.after.end(),
                         [](const Passed &passed) { return passed.stream->done >= passed.position; });
    });
  }
  std::vector<Range> ranges_;
};

// The position up to which the stream may run before it waits for another.
[[maybe_unused]] uint64_t reach(tb_stream *stream) {
  std::lock_guard guard(fake::world.mutex);
  std::erase_if(stream->waits, [](auto &wait) { return wait.other->done >= wait.other_position; });
  uint64_t position = stream->queued;
  for (const tb_stream::Wait &wait : stream->waits) position = std::min(position, wait.position - 1);
  return position;
}

} // namespace
