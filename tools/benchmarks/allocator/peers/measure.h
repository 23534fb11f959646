// measure.h -- the loops in which every allocator is measured: replays, pairs, a working set, threads.
//
//   PROGRAM replay TRACE REPETITIONS   PROGRAM pairs
// Prints one line of JSON. An allocator is a class with
//   Block (default: none), bool allocate(bytes, stream, Block *), void deallocate(Block &), void record(Block &, stream),
//   uint64_t peak_reserved()
// made with the number of streams; streams are numbers, 0 the default one. One program, one allocator: no virtual calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "replay/trace.h"

namespace measure {

constexpr uint32_t most_streams = 8;

// Called before each event of a trace: advances the time of the emulated device, if the allocator under test has one.
template <class Allocator> void tick(Allocator &allocator) {
  if constexpr (requires { allocator.tick(); }) allocator.tick();
}

[[noreturn]] inline void stop(const char *text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

double seconds(auto body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The index of the first event that failed, or the number of events. Not inlined: tools count instructions under it.
template <class Allocator> [[gnu::noinline]] size_t play(Allocator &allocator, const tb::allocator::Trace &trace,
                                                         std::vector<typename Allocator::Block> &blocks) {
  for (size_t at = 0; at < trace.events.size(); ++at) {
    const tb::allocator::TraceEvent &event = trace.events[at];
    tick(allocator);
    if (event.kind == tb::allocator::TraceEvent::free) {
      allocator.deallocate(blocks[event.slot]);
      blocks[event.slot] = {};
    } else if (event.kind == tb::allocator::TraceEvent::allocate) {
      if (!allocator.allocate(event.bytes, event.stream, &blocks[event.slot])) return at;
    } else {
      allocator.record(blocks[event.slot], event.stream);
    }
  }
  return trace.events.size();
}

template <class Allocator> void replay(const tb::allocator::Trace &trace, int repetitions) {
  Allocator allocator(trace.streams);
  std::vector<typename Allocator::Block> blocks(trace.slots);
  double best = 1e9;
  for (int turn = 0; turn < repetitions; ++turn) {
    size_t reached = 0;
    best = std::min(best, seconds([&] { reached = play(allocator, trace, blocks); }));
    if (reached != trace.events.size()) stop("the allocator ran out of memory");
    for (auto &block : blocks) {
      if (block) allocator.deallocate(block);
      block = {};
    }
  }
  printf("{\"nanoseconds_per_event\": %.3f, \"peak_reserved\": %llu}\n",
         best * 1e9 / static_cast<double>(std::max<size_t>(trace.events.size(), 1)),
         static_cast<unsigned long long>(allocator.peak_reserved()));
}

template <class Allocator> void pair(Allocator &allocator, uint64_t size, uint32_t stream) {
  typename Allocator::Block block{};
  if (!allocator.allocate(size, stream, &block)) stop("the allocator ran out of memory");
  allocator.deallocate(block);
}

// The best of many short runs, which is least affected by other load of the machine.
double nanoseconds(int count, auto body) {
  double best = 1e9;
  for (int run = 0; run < 200; ++run)
    best = std::min(best, seconds([&] {
                      for (int i = 0; i < count; ++i) body(i);
                    }));
  return best * 1e9 / count;
}

// Each thread uses a stream of its own. Returns the slowest thread's time for one pair.
template <class Allocator> double threads(Allocator &allocator, uint32_t count) {
  constexpr int pairs = 600000; // long enough that the system spreads the threads evenly
  double best = 1e9;
  for (int run = 0; run < 3; ++run)
    best = std::min(best, seconds([&] {
                      std::vector<std::thread> all;
                      for (uint32_t stream = 0; stream < count; ++stream)
                        all.emplace_back([&, stream] {
                          for (int i = 0; i < pairs; ++i) pair(allocator, 512, stream);
                        });
                      for (std::thread &one : all) one.join();
                    }));
  return best * 1e9 / pairs;
}

template <class Allocator> double working_set(Allocator &allocator) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> sizes(4096);
  for (uint64_t &size : sizes) size = (uint64_t{512} << random() % 13) + random() % 512; // to 4 MiB
  std::vector<typename Allocator::Block> live(512);
  std::vector<size_t> places(8191); // a length for which the combinations of place and size do not soon repeat
  for (size_t &place : places) place = random() % live.size();
  size_t next = 0;
  double time = nanoseconds(2000, [&](int) {
    auto &block = live[places[next % places.size()]];
    if (block) allocator.deallocate(block);
    if (!allocator.allocate(sizes[next % sizes.size()], 0, &block)) stop("the allocator ran out of memory");
    ++next;
  });
  for (auto &block : live)
    if (block) allocator.deallocate(block);
  return time;
}

template <class Allocator> void pairs() {
  Allocator allocator(most_streams);
  printf("{");
  for (auto [name, size] :
       {std::pair{"512", uint64_t{512}}, {"65536", uint64_t{64} << 10}, {"4194304", uint64_t{4} << 20}})
    printf("\"pair_%s\": %.3f, ", name, nanoseconds(2000, [&](int) { pair(allocator, size, 0); }));
  printf("\"working_set\": %.3f, ", working_set(allocator));
  printf("\"threads_2\": %.3f, ", threads(allocator, 2));
  printf("\"threads_4\": %.3f}\n", threads(allocator, 4));
}

template <class Allocator> int main(int count, char **arguments) {
  std::string what = count > 1 ? arguments[1] : "";
  if (what == "pairs") {
    pairs<Allocator>();
  } else if (what == "replay" && count == 4) {
    std::ifstream file(arguments[2]);
    if (!file) stop("the trace cannot be read");
    std::string text(std::istreambuf_iterator<char>(file), {});
    replay<Allocator>(tb::allocator::parse_trace(text), atoi(arguments[3]));
  } else {
    stop("usage: replay TRACE REPETITIONS, or pairs");
  }
  fflush(stdout);
  _Exit(0); // allocators of other projects expect a real runtime when they are destroyed
}

} // namespace measure
