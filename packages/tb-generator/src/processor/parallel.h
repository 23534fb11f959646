// Runs a range in pieces on several threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace tb::generator {

// Calls part(first, count) for pieces that together are 0 to count. Pieces for which no thread can be started run on
// the calling thread. `part` must not throw.
template <class Part> void in_parallel(uint64_t count, uint32_t threads, const Part &part) {
  constexpr uint64_t grain = 4096; // elements; a multiple of the fills' chunks and of cache lines
  const uint64_t grains = (count + grain - 1) / grain;
  const uint64_t pieces = std::clamp<uint64_t>(threads, 1, std::max<uint64_t>(grains, 1));
  const auto start = [&](uint64_t piece) { return std::min(grains * piece / pieces * grain, count); };
  std::vector<std::thread> running;
  running.reserve(pieces - 1);
  uint64_t piece = 1;
  try {
    for (; piece < pieces; piece++)
      running.emplace_back([&part, first = start(piece), last = start(piece + 1)] { part(first, last - first); });
  } catch (const std::system_error &) { // the system starts no more threads
  }
  part(uint64_t{0}, start(1));
  if (piece < pieces) part(start(piece), count - start(piece));
  for (std::thread &thread : running) thread.join();
}

} // namespace tb::generator
