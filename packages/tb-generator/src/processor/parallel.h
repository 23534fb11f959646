// Runs a range in parts on several threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace tb::generator {

// part(first, count) for pieces that make up 0 to count. What cannot get a thread runs on the caller. part must not
// throw.
template <class Part> void in_parallel(uint64_t count, uint32_t threads, const Part &part) {
  constexpr uint64_t grain = 4096; // elements: whole chunks of the fills, whole cache lines
  const uint64_t grains = (count + grain - 1) / grain;
  const uint64_t pieces = std::clamp<uint64_t>(threads, 1, std::max<uint64_t>(grains, 1));
  const auto start = [&](uint64_t piece) { return std::min(grains * piece / pieces * grain, count); };
  std::vector<std::thread> running;
  running.reserve(pieces - 1);
  uint64_t piece = 1;
  try {
    for (; piece < pieces; piece++)
      running.emplace_back([&part, first = start(piece), last = start(piece + 1)] { part(first, last - first); });
  } catch (const std::system_error &) { // no more threads to be had
  }
  part(uint64_t{0}, start(1));
  if (piece < pieces) part(start(piece), count - start(piece));
  for (std::thread &thread : running) thread.join();
}

} // namespace tb::generator
