// Captures (tb_stream.capture, torch.tb.graph): the random numbers of captured work, and whether a stream captures.
//
// A random operator in a capture keeps its place in the sequence from where the launch begins. In front of each launch a
// closure notes the generator's seed and offset, and the generator moves on by what the work draws: a launch continues
// the sequence as running the operators one by one would.
#pragma once
#include <ATen/core/Generator.h>

#include <memory>

#include "runtime/runtime.h"

namespace tb {

// Where a reserved stretch of a generator's sequence starts.
struct Stretch {
  uint64_t seed, offset;
  std::shared_ptr<const Stretch> launch; // captured: where the launch starts, to which our offset is added

  // On the worker.
  Stretch now() const { return {launch ? launch->seed : seed, launch ? launch->offset + offset : offset, nullptr}; }
};

// Takes `counters` of four words of the sequence of the given generator, or of the device's own.
Stretch reserve_counters(const std::optional<at::Generator> &given, c10::DeviceIndex device, uint64_t counters);

// Takes part in tb-stream's captures from now on. Once.
void connect_captures();

// While it is false, no stream captures.
inline bool any_capture() { return __atomic_load_n(runtime.stream.capturing, __ATOMIC_RELAXED) != 0; }
bool in_capture(tb_stream *stream);

} // namespace tb
