// compile.cpp -- from a recording to a program: places, the earlier users of each place, and the fewest events.
#include <algorithm>
#include <map>
#include <queue>

#include "plan/program.h"

namespace tb::allocator {
namespace {

struct Extent {
  uint64_t from, to;
};

// The last user of each byte; later extents cover earlier ones.
class LastUsers {
public:
  // Visits the users of the extent, then assigns all of it to `user`. Returns the bytes that had no user.
  template <class Visit> uint64_t take(Extent extent, uint32_t user, Visit visit) {
    uint64_t had = 0;
    auto one = all_.upper_bound(extent.from);
    if (one != all_.begin() && std::prev(one)->second.to > extent.from) --one;
    while (one != all_.end() && one->first < extent.to) {
      Part part = one->second;
      uint64_t from = one->first;
      one = all_.erase(one);
      had += std::min(part.to, extent.to) - std::max(from, extent.from);
      visit(part.user);
      if (from < extent.from) all_[from] = {extent.from, part.user};
      if (part.to > extent.to) all_[extent.to] = part;
    }
    all_[extent.from] = {extent.to, user};
    return extent.to - extent.from - had;
  }

private:
  struct Part {
    uint64_t to;
    uint32_t user;
  };
  std::map<uint64_t, Part> all_; // by start
};

} // namespace

Program::Program(const Driver &which, const std::vector<Recorded> &step, double seconds) : driver(which) {
  constexpr size_t most_streams = 64;
  std::vector<tb_stream *> streams;
  auto number = [&](tb_stream *stream) {
    auto found = std::find(streams.begin(), streams.end(), stream);
    if (found == streams.end()) found = streams.insert(found, stream);
    return static_cast<uint32_t>(found - streams.begin());
  };
  entries.reserve(step.size());
  for (const Recorded &one : step) {
    Entry entry{one.size, 0, number(one.stream)};
    entry.placed = one.freed != Recorded::escapes;
    for (tb_stream *use : one.uses)
      if (uint32_t stream = number(use); stream != entry.stream && stream < most_streams)
        entry.uses |= uint64_t{1} << stream;
    entries.push_back(entry);
  }
  if (streams.size() > most_streams)
    for (Entry &entry : entries) entry.placed = false;
  for (tb_stream *stream : streams) {
    pools.push_back(std::make_unique<Pool>());
    pools.back()->stream = stream;
    pools.back()->large = true; // so that no cache of small blocks takes them
  }
  begin_.resize(streams.size());
  for (uint32_t stream = 0; stream < streams.size(); ++stream) begin_[stream].stream = stream;
  known_.assign(streams.size() * streams.size(), 1); // the device was waited for when the memory was made
  lay_out(step, seconds);
  find_order(step);
  find_earlier();
  assign_events(step);
}

void Program::lay_out(const std::vector<Recorded> &step, double seconds) {
  std::vector<uint32_t> rank(entries.size() + 1); // placed entries before
  for (size_t at = 0; at < entries.size(); ++at) rank[at + 1] = rank[at] + entries[at].placed;
  std::vector<Lifetime> lifetimes;
  for (size_t at = 0; at < entries.size(); ++at)
    if (entries[at].placed) lifetimes.push_back({entries[at].size, rank[step[at].freed], entries[at].stream});
  Placement placement = place(lifetimes, seconds);
  bytes = placement.bytes;
  peak = placement.peak;
  placed = lifetimes.size();
  for (size_t at = 0; at < entries.size(); ++at)
    if (entries[at].placed) entries[at].offset = placement.offsets[rank[at]];
}

void Program::find_order(const std::vector<Recorded> &step) {
  LastUsers last;
  for (uint32_t at = 0; at < entries.size(); ++at) {
    Entry &entry = entries[at];
    if (!entry.placed) continue;
    entry.after = static_cast<uint32_t>(after_.size());
    uint64_t fresh =
        last.take({entry.offset, entry.offset + entry.size}, at, [&](uint32_t before) { after_.push_back(before); });
    auto begin = after_.begin() + entry.after;
    std::sort(begin, after_.end());
    after_.erase(std::unique(begin, after_.end()), after_.end());
    entry.after_end = static_cast<uint32_t>(after_.size());
    if (fresh) entry.earlier = ~uint64_t{0}; // find_earlier() finds out which
    entry.needs = static_cast<uint32_t>(needs_.size());
    for (uint32_t one = entry.after; one < entry.after_end; ++one)
      for (uint32_t stream = 0; stream < pools.size(); ++stream)
        if (stream != entry.stream && users(entries[after_[one]]) >> stream & 1)
          needs_.push_back({after_[one], stream, none});
    // The latest comes first, because its event covers the others of that stream.
    std::sort(needs_.begin() + entry.needs, needs_.end(),
              [&](const Need &a, const Need &b) { return step[a.entry].freed > step[b.entry].freed; });
    entry.needs_end = static_cast<uint32_t>(needs_.size());
  }
}

void Program::find_earlier() {
  std::vector<std::vector<Extent>> extents(pools.size()); // by stream, joined, in order
  for (uint32_t stream = 0; stream < pools.size(); ++stream) {
    std::vector<Extent> all;
    for (const Entry &entry : entries)
      if (entry.placed && users(entry) >> stream & 1) all.push_back({entry.offset, entry.offset + entry.size});
    std::sort(all.begin(), all.end(), [](const Extent &a, const Extent &b) { return a.from < b.from; });
    for (const Extent &one : all) {
      auto &joined = extents[stream];
      if (!joined.empty() && one.from <= joined.back().to)
        joined.back().to = std::max(joined.back().to, one.to);
      else
        joined.push_back(one);
    }
  }
  for (Entry &entry : entries) {
    uint64_t streams = 0;
    for (uint32_t stream = 0; entry.earlier && stream < pools.size(); ++stream) {
      const auto &all = extents[stream];
      auto after = std::upper_bound(all.begin(), all.end(), entry.offset,
                                    [](uint64_t offset, const Extent &one) { return offset < one.to; });
      if (stream != entry.stream && after != all.end() && after->from < entry.offset + entry.size)
        streams |= uint64_t{1} << stream;
    }
    entry.earlier = streams;
    ordered_ |= streams;
  }
}

// Goes through the step as it was recorded. An event is recorded only where no earlier wait covers the need.
void Program::assign_events(const std::vector<Recorded> &step) {
  struct Asked {
    uint32_t freed, entry, stream, last; // the last: the latest entry that waits for it
  };
  std::map<std::pair<uint32_t, uint32_t>, size_t> places; // by entry and stream: in asked
  std::vector<Asked> asked;
  std::vector<uint32_t> seen(pools.size() * pools.size()); // by two streams: frees up to there are known
  for (uint32_t at = 0; at < entries.size(); ++at) {
    Entry &entry = entries[at];
    for (uint32_t one = entry.needs; one < entry.needs_end; ++one) {
      const Need &need = needs_[one];
      uint32_t &covered = seen[entry.stream * pools.size() + need.stream], freed = step[need.entry].freed;
      auto found = places.find({need.entry, need.stream});
      if (freed < covered && found == places.end())
        continue; // not <=, because all frees between two allocations have the same number
      if (found == places.end()) {
        found = places.emplace(std::pair{need.entry, need.stream}, asked.size()).first;
        asked.push_back({freed, need.entry, need.stream, at});
      }
      asked[found->second].last = at;
      covered = std::max(covered, freed);
    }
  }
  std::vector<uint32_t> order(asked.size());
  for (uint32_t at = 0; at < order.size(); ++at) order[at] = at;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return asked[a].freed < asked[b].freed; });
  using Busy = std::pair<uint32_t, uint32_t>; // until when, which event
  std::vector<std::priority_queue<Busy, std::vector<Busy>, std::greater<>>> busy(pools.size());
  std::vector<uint32_t> event_of(asked.size());
  for (uint32_t index : order) {
    const Asked &one = asked[index];
    auto &mine = busy[one.stream];
    uint32_t event = static_cast<uint32_t>(events_.size());
    if (!mine.empty() && mine.top().first < one.freed) { // earlier waits keep the recording that they waited for
      event = mine.top().second;
      mine.pop();
    } else {
      events_.push_back({nullptr, one.stream, 0});
    }
    mine.push({one.last, event});
    event_of[index] = event;
  }
  for (Need &need : needs_)
    if (auto found = places.find({need.entry, need.stream}); found != places.end())
      need.event = event_of[found->second];
  for (uint32_t at = 0; at < entries.size(); ++at) {
    entries[at].events = static_cast<uint32_t>(recorded_.size());
    for (auto one = places.lower_bound({at, 0}); one != places.end() && one->first.first == at; ++one)
      recorded_.push_back(event_of[one->second]);
    entries[at].events_end = static_cast<uint32_t>(recorded_.size());
  }
}

} // namespace tb::allocator
