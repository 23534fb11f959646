// The last uses of each piece of memory, and the conflicts among them. The caller holds the layer's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "layers/races/extent.h"
#include "layers/races/order.h"

namespace tb::layers {

// Who uses memory, and where in the program. Texts are static; places are numbers of the layer's list, 0: not known.
struct Use {
  const char *work = "", *name = "";
  bool writes = false;
  uint32_t place = 0;
  uint32_t launch_place = 0; // of the graph that the work is part of
};

// What a graph uses, each extent once for reads and once for writes.
struct RecordedGraph {
  struct One {
    Extent extent;
    Use use;
  };
  std::vector<One> uses;
  bool active = true; // it is still captured
  void add(const Extent &extent, const Use &use);
};

// A use by work of a stream. `life`: of the memory; 0 where no allocator tells.
struct StreamUse {
  Use use;
  size_t stream = 0;
  uint64_t number = 0;
  uint64_t life = 0;
};

class Shadow {
public:
  // Calls conflict(earlier) for each earlier use that conflicts with this one and is not ordered before it, and remembers
  // this one. later: its stream; NULL: the host, whose uses are over at once and are not remembered.
  template <class Conflict> void use(const Order &order, const Extent &extent, const Use &use,
                                     const OrderedStream *later, uint64_t number, const Conflict &conflict);
  // The memory of the range is given back or begins again without an order that can be known.
  void forget(uintptr_t begin, uintptr_t end);
  // A new life of the range begins.
  void allocated(uintptr_t begin, uintptr_t end);
  uint64_t life_of(uintptr_t address) const;
  void clear();

private:
  struct Cell {
    Extent extent;
    StreamUse write;              // number 0: none
    std::vector<StreamUse> reads; // one for each stream
  };
  using Cells = std::multimap<uintptr_t, Cell>; // by the begin of the extent
  static constexpr size_t size_classes = 64;

  // Calls body(cells, iterator) -> next iterator for each cell whose range meets the given one.
  template <class Body> void meeting(uintptr_t begin, uintptr_t end, const Body &body);
  static size_t class_of(const Extent &extent) {
    return 63 - static_cast<size_t>(__builtin_clzll(std::max<uint64_t>(extent.end - extent.begin, 1)));
  }

  std::array<Cells, size_classes> cells_; // [k]: extents of 2^k to 2^(k+1) - 1 bytes
  struct Life {
    uintptr_t end;
    uint64_t number;
  };
  std::map<uintptr_t, Life> lives_;
  uint64_t last_life_ = 0;
};

// ---- implementation ------------------------------------------------------------------------------------------------

template <class Body> void Shadow::meeting(uintptr_t begin, uintptr_t end, const Body &body) {
  for (size_t each = 0; each < size_classes; ++each) {
    Cells &cells = cells_[each];
    if (cells.empty()) continue;
    const uint64_t longest = (uint64_t{2} << each) - 1;
    for (auto at = cells.lower_bound(begin > longest ? begin - longest : 0); at != cells.end() && at->first < end;)
      at = at->second.extent.end > begin ? body(cells, at) : std::next(at);
  }
}

template <class Conflict> void Shadow::use(const Order &order, const Extent &extent, const Use &use,
                                           const OrderedStream *later, uint64_t number, const Conflict &conflict) {
  Cell *own = nullptr;
  meeting(extent.begin, extent.end, [&](Cells &cells, Cells::iterator at) {
    Cell &cell = at->second;
    // What the host has seen done is before all that follows.
    if (cell.write.number && order.host_has_seen(cell.write.stream, cell.write.number)) cell.write.number = 0;
    std::erase_if(cell.reads, [&](const StreamUse &read) { return order.host_has_seen(read.stream, read.number); });
    const bool overlaps = cell.extent.overlaps(extent);
    bool all_before = true;
    const auto look = [&](const StreamUse &earlier) {
      if (later && earlier.stream == later->index) return;
      if (order.is_before(earlier.stream, earlier.number, later)) return;
      all_before = false;
      if (overlaps && (use.writes || earlier.use.writes)) conflict(earlier);
    };
    if (cell.write.number) look(cell.write);
    for (const StreamUse &read : cell.reads) look(read);
    if (!cell.write.number && cell.reads.empty()) return cells.erase(at);
    if (later && !own && cell.extent.same(extent)) own = &cell;
    // A write of all of it is what later uses must come after.
    else if (later && use.writes && all_before && extent.covers(cell.extent))
      return cells.erase(at);
    return std::next(at);
  });
  if (!later) return;
  if (!own) own = &cells_[class_of(extent)].emplace(extent.begin, Cell{extent, {}, {}})->second;
  const StreamUse now{use, later->index, number, life_of(extent.begin)};
  if (use.writes) {
    own->write = now;
    std::erase_if(own->reads, [&](const StreamUse &read) {
      return read.stream == later->index || order.is_before(read.stream, read.number, later);
    });
    return;
  }
  for (StreamUse &read : own->reads)
    if (read.stream == later->index) {
      read = now;
      return;
    }
  own->reads.push_back(now);
}

} // namespace tb::layers
