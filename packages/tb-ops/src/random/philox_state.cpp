// Reserves states, and implements tb-ops' part in captures (tb/component.h).
#include "random/philox_state.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <vector>

#include "launch/launch.h"
#include "runtime/capture.h"
#include "tb/philox_offset.h"

namespace tb::ops {
namespace {

// A generator from which a capture draws.
struct CapturedGenerator {
  at::Generator generator;
  uint64_t seed, start; // when the capture began
  uint64_t used = 0;    // counters
  uint64_t advance = 0; // counters by which a launch moves the generator on; fewer than `used` after a set_state
  std::shared_ptr<PhiloxState> extragraph = std::make_shared<PhiloxState>(); // of the launch that runs now
};

struct CapturePart {
  int32_t device;
  std::vector<CapturedGenerator> generators;
};

std::mutex lock; // guards the list below, and the lists of generators in it
std::vector<CapturePart *> active;

tb_status begin(int32_t device, tb_stream *, uint64_t, void **out) {
  const std::lock_guard guard(lock);
  active.push_back(new CapturePart{device, {}});
  *out = active.back();
  return TB_OK;
}

// Sets the generators back to where the capture began, since nothing has been drawn yet.
void end(void *handle) {
  auto *part = static_cast<CapturePart *>(handle);
  {
    const std::lock_guard guard(lock); // not held with a generator's mutex, which reserve_captured() locks first
    std::erase(active, part);
  }
  for (CapturedGenerator &captured : part->generators) {
    const std::lock_guard<std::mutex> generator(captured.generator.mutex());
    if (captured.generator.current_seed() != captured.seed) continue;
    const uint64_t offset = captured.generator.get_offset();
    captured.advance = offset >= captured.start ? offset - captured.start : captured.used;
    captured.generator.set_offset(captured.start);
  }
}

// Records the generator's state in front of a launch. Earlier launches that are still queued have recordings of their
// own.
struct NoteStart {
  std::shared_ptr<PhiloxState> to;
  uint64_t seed, offset;

  static tb_status run(void *storage, const tb_closure_context *) {
    const auto *self = static_cast<NoteStart *>(storage);
    self->to->seed = self->seed;
    self->to->offset = self->offset;
    return TB_OK;
  }
  static void destroy(void *storage) { static_cast<NoteStart *>(storage)->~NoteStart(); }
  static constexpr tb_closure kind{sizeof(tb_closure), TB_CLOSURE_AFTER_FAILURE, "graph_launch (random numbers)", &run,
                                   &destroy};
};

tb_status note_start(CapturedGenerator &captured, tb_stream *stream) {
  void *storage = nullptr; // before the lock, since it waits if the queue is full
  if (const tb_status status = runtime.driver->closure_reserve(runtime.self, stream, sizeof(NoteStart), &storage))
    return status;
  const std::lock_guard<std::mutex> guard(captured.generator.mutex());
  const uint64_t seed = captured.generator.current_seed(), offset = captured.generator.get_offset();
  new (storage) NoteStart{captured.extragraph, seed, offset};
  captured.generator.set_offset(offset + captured.advance);
  return runtime.driver->closure_commit(runtime.self, stream, storage, &NoteStart::kind);
}

tb_status launch(void *handle, tb_stream *stream) {
  auto *part = static_cast<CapturePart *>(handle);
  try {
    for (CapturedGenerator &captured : part->generators)
      if (const tb_status status = note_start(captured, stream)) return status;
    return TB_OK;
  } catch (const std::exception &error) {
    runtime.device.set_error(TB_INTERNAL, 0, part->device, "graph_launch", error.what());
    return TB_INTERNAL;
  }
}

void destroy(void *handle) {
  auto *part = static_cast<CapturePart *>(handle);
  {
    const std::lock_guard guard(lock);
    std::erase(active, part);
  }
  delete part;
}

const tb_capture_part own_part{sizeof(tb_capture_part), 0, "tb-ops", begin, end, launch, destroy};

// Returns tb-ops' part of the capture that the stream takes part in, or NULL if it takes part in none.
CapturePart *part_of(tb_stream *stream) {
  void *found = nullptr;
  check(runtime.stream.capture_part(stream, &own_part, &found), "capture_part", -1);
  return static_cast<CapturePart *>(found);
}

CapturedGenerator &captured_generator(CapturePart &part, const at::Generator &generator) {
  for (CapturedGenerator &captured : part.generators)
    if (captured.generator == generator) return captured;
  part.generators.push_back({generator, generator.current_seed(), generator.get_offset()});
  return part.generators.back();
}

// Throws if the driver cannot have random numbers in a graph; ends a capture that can be interrupted. The caller holds the
// generator's mutex, which an interruption takes itself.
bool leave_capture(tb_stream *stream, at::Generator &generator) {
  if (runtime.closures) return false;
  const char *what =
      "random numbers cannot be part of a graph on this driver: it runs no closures, and one notes where "
      "each launch begins in the sequence";
  generator.mutex().unlock();
  bool captures = true;
  try {
    captures = captures_after_interruption(stream, what);
  } catch (...) {
    generator.mutex().lock();
    throw;
  }
  generator.mutex().lock();
  TORCH_CHECK_NOT_IMPLEMENTED(!captures, what, ". Draw them before the capture");
  return true;
}

// The caller holds the generator's mutex.
PhiloxState reserve_captured(CapturePart &part, at::Generator &generator, uint64_t counters) {
  const std::lock_guard guard(lock);
  CapturedGenerator &captured = captured_generator(part, generator);
  const uint64_t offset = generator.get_offset();
  TORCH_CHECK(generator.current_seed() == captured.seed && offset >= captured.start,
              "a generator was seeded, or set back to a state from before, inside a capture. Every launch draws from "
              "where the generator is then: seed it before the capture or before a launch");
  generator.set_offset(offset + counters);
  captured.used = std::max(captured.used, offset - captured.start + counters);
  return {0, offset - captured.start, captured.extragraph};
}

void refuse_others(const at::Generator &generator) {
  const std::lock_guard guard(lock);
  for (const CapturePart *part : active)
    for (const CapturedGenerator &captured : part->generators)
      TORCH_CHECK(!(captured.generator == generator),
                  "the generator is drawn from in a capture that is in progress: give this work a generator of its "
                  "own (generator=), or wait until the capture has ended");
}

// The caller holds the generator's mutex.
PhiloxState reserve_locked(at::Generator &generator, c10::DeviceIndex device, uint64_t counters) {
  if (any_capture()) [[unlikely]] {
    tb_stream *stream = current_stream(device);
    CapturePart *part = part_of(stream);
    if (part && !leave_capture(stream, generator)) return reserve_captured(*part, generator, counters);
    refuse_others(generator);
  }
  PhiloxState philox{generator.current_seed(), generator.get_offset(), nullptr};
  generator.set_offset(philox.offset + counters);
  return philox;
}

// Writes the state of each launch to the graph's memory.
struct WriteState {
  LaunchContext launch_context;
  int64_t *to;
  std::shared_ptr<const PhiloxState> extragraph;

  static void call(void *storage) {
    const auto *self = static_cast<WriteState *>(storage);
    self->to[0] = static_cast<int64_t>(self->extragraph->seed);
    self->to[1] = offset_in_words(self->extragraph->offset);
  }
  static tb_status run(void *storage, const tb_closure_context *context) {
    return run_closure(&call, reinterpret_cast<const void *>(&call), storage, ThreadInvariance::float32,
                       static_cast<WriteState *>(storage)->launch_context, context);
  }
  static void destroy(void *storage) { static_cast<WriteState *>(storage)->~WriteState(); }
  static constexpr tb_closure kind{sizeof(tb_closure), TB_CLOSURE_ON_WAITER, "tb::reserve_random", &run, &destroy};
};

// The operator tb::set_random_state, which torch-backend calls before a generator gets another state. A capture can
// contain a state of the same sequence from where the capture began on, as checkpoints set it; it is interrupted for
// others. The caller holds the generator's mutex, which an interruption takes itself.
void before_set_state(std::optional<at::Generator> given, int64_t seed, int64_t offset) {
  at::Generator generator = given.value();
  if (!any_capture()) return;
  tb_stream *stream = current_stream(generator.device().index());
  CapturePart *part = part_of(stream);
  if (!part) return;
  {
    const std::lock_guard guard(lock);
    const CapturedGenerator &captured = captured_generator(*part, generator);
    if (static_cast<uint64_t>(seed) == captured.seed && static_cast<uint64_t>(offset) >= captured.start) return;
  }
  generator.mutex().unlock();
  try {
    captures_after_interruption(stream, "a generator is seeded, or set to another state, inside the capture");
  } catch (...) {
    generator.mutex().lock();
    throw;
  }
  generator.mutex().lock();
}

// The operator tb::reserve_random, for torch-backend's philox_state(). Returns the seed, the offset in words, and in a
// capture a tensor of the graph with both at each launch; the offset is then relative to it. The caller holds the
// generator's mutex.
std::tuple<at::Tensor, int64_t, int64_t> reserve_random(std::optional<at::Generator> given, int64_t counters) {
  at::Generator generator = given.value();
  const c10::Device device = generator.device();
  const PhiloxState state = reserve_locked(generator, device.index(), static_cast<uint64_t>(counters));
  const int64_t seed = static_cast<int64_t>(state.seed), offset = offset_in_words(state.offset);
  if (!state.extragraph) return {at::Tensor(), seed, offset};
  const at::Tensor at_launch =
      at::_ops::empty_memory_format::call(c10::SymInt(2), c10::kLong, std::nullopt, device, std::nullopt, std::nullopt);
  enqueue_made<WriteState>(device.index(), WriteState::kind, [&](void *storage) {
    new (storage) WriteState{{}, at_launch.mutable_data_ptr<int64_t>(), state.extragraph};
  });
  return {at_launch, seed, offset};
}

} // namespace

PhiloxState reserve_counters(const std::optional<at::Generator> &given, c10::DeviceIndex device, uint64_t counters) {
  const c10::Device here(device_type, device);
  at::Generator generator = given && given->defined() ? *given : at::globalContext().defaultGenerator(here);
  TORCH_CHECK(generator.device().type() == device_type, "Expected a '", here.type(),
              "' device type for generator but found '", generator.device().type(), "'");
  const std::lock_guard<std::mutex> guard(generator.mutex());
  return reserve_locked(generator, device, counters);
}

void connect_captures() {
  check(runtime.stream.add_capture_part(&own_part), "add_capture_part", -1);
  static torch::Library library(torch::Library::FRAGMENT, "tb", std::nullopt, __FILE__, __LINE__);
  library.def("reserve_random(Generator? generator, int counters) -> (Tensor, int, int)", &reserve_random);
  library.def("set_random_state(Generator? generator, int seed, int offset) -> ()", &before_set_state);
}

} // namespace tb::ops
