// streams.cpp -- each stream has bytes of its own as far as there is room, because passing bytes from stream to stream
// costs driver calls.
//
// Where there is not enough room, the streams are placed one above the other nevertheless, and only the blocks that end
// too high move to where other streams leave room for a time. If that fails, all streams are mixed.
#include <algorithm>
#include <numeric>

#include "plan/fitting.h"

namespace tb::allocator {
namespace {

constexpr double worth_trying = 1.1; // multiple of the peak: streams that need more when apart are mixed at once

// Places each stream's blocks above those of the streams before it; the largest stream is lowest.
Placement place_apart(const Blocks &blocks, uint32_t streams, Clock::time_point deadline) {
  constexpr auto patience = std::chrono::milliseconds(500); // for all
  std::vector<Part> parts;
  std::vector<Placement> placed;
  for (uint32_t stream = 0; stream < streams; ++stream) {
    parts.push_back(part_of(blocks, [&](const Lifetime &one) { return one.stream == stream; }));
    placed.push_back(stack(parts.back().blocks, UINT64_MAX, Clock::now() + patience / streams, deadline));
  }
  std::vector<uint32_t> order(streams);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return placed[a].bytes > placed[b].bytes; });
  Placement out;
  out.offsets.resize(blocks.size());
  for (uint32_t stream : order) {
    for (size_t at = 0; at < parts[stream].which.size(); ++at)
      out.offsets[parts[stream].which[at]] = out.bytes + placed[stream].offsets[at];
    out.bytes += placed[stream].bytes;
  }
  return out;
}

// Moves the blocks that end above most_bytes().
bool tuck_in(const Blocks &blocks, Placement *apart, Clock::time_point deadline) {
  auto until = std::min(deadline, Clock::now() + Clock::seconds(1));
  constexpr uint64_t looks = 1000; // for each block
  uint64_t capacity = most_bytes(apart->peak) / 512 * 512;
  std::vector<uint64_t> offsets = apart->offsets;
  if (!Fitting(blocks).run(capacity, {0.8, 1.1}, looks * blocks.size(), until, &offsets)) return false;
  apart->offsets = std::move(offsets);
  apart->bytes = capacity;
  return true;
}

} // namespace

Placement place(const Blocks &blocks, double seconds) {
  auto deadline = Clock::now() + Clock::seconds(seconds);
  uint32_t streams = 0;
  for (const Lifetime &block : blocks) streams = std::max(streams, block.stream + 1);
  if (streams <= 1) return place_together(blocks, deadline);
  uint64_t peak = peak_of(blocks), least = 0;
  for (uint32_t stream = 0; stream < streams; ++stream)
    least += peak_of(part_of(blocks, [&](const Lifetime &one) { return one.stream == stream; }).blocks);
  if (static_cast<double>(least) > worth_trying * static_cast<double>(peak)) return place_together(blocks, deadline);
  Placement apart = place_apart(blocks, streams, deadline);
  apart.peak = peak;
  if (apart.bytes <= most_bytes(peak) || tuck_in(blocks, &apart, deadline)) return apart;
  Placement together = place_together(blocks, deadline);
  return together.bytes < apart.bytes ? together : apart;
}

} // namespace tb::allocator
