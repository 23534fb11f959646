// tb-ops' part in captures (tb/component.h).
#include "random/philox_state.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace tb {
namespace {

// What one capture draws from one generator.
struct Draws {
  at::Generator generator;
  uint64_t seed, start;                                          // as the capture began
  uint64_t used = 0;                                             // counters
  std::shared_ptr<Stretch> launch = std::make_shared<Stretch>(); // of the launch that runs
};

struct Part {
  int32_t device;
  std::vector<Draws> draws;
};

std::mutex lock; // of the list below; the lists of draws are guarded by it too
std::vector<Part *> active;

tb_status begin(int32_t device, tb_stream *, uint64_t, void **out) {
  const std::lock_guard guard(lock);
  active.push_back(new Part{device, {}});
  *out = active.back();
  return TB_OK;
}

// The generators go back to where they were: nothing has been drawn yet.
void end(void *handle) {
  auto *part = static_cast<Part *>(handle);
  {
    const std::lock_guard guard(lock); // not together with a generator's: reserve_captured takes both
    std::erase(active, part);
  }
  for (Draws &draws : part->draws) {
    const std::lock_guard<std::mutex> generator(draws.generator.mutex());
    if (draws.generator.current_seed() == draws.seed) draws.generator.set_offset(draws.start);
  }
}

// In front of a launch: earlier ones that are still queued have their own.
struct NoteStart {
  std::shared_ptr<Stretch> to;
  uint64_t seed, offset;

  static tb_status run(void *storage, const tb_closure_context *) {
    const auto *self = static_cast<NoteStart *>(storage);
    self->to->seed = self->seed;
    self->to->offset = self->offset;
    return TB_OK;
  }
  static void destroy(void *storage) { static_cast<NoteStart *>(storage)->~NoteStart(); }
  static constexpr tb_closure kind{sizeof(tb_closure), 0, "graph_launch (random numbers)", &run, &destroy};
};

tb_status note_start(Draws &draws, tb_stream *stream) {
  void *storage = nullptr; // before the lock, since a full queue is waited for
  if (const tb_status status = runtime.driver->closure_reserve(runtime.self, stream, sizeof(NoteStart), &storage))
    return status;
  const std::lock_guard<std::mutex> guard(draws.generator.mutex());
  const uint64_t seed = draws.generator.current_seed(), offset = draws.generator.get_offset();
  new (storage) NoteStart{draws.launch, seed, offset};
  draws.generator.set_offset(offset + draws.used);
  return runtime.driver->closure_commit(runtime.self, stream, storage, &NoteStart::kind);
}

tb_status launch(void *handle, tb_stream *stream) {
  auto *part = static_cast<Part *>(handle);
  try {
    for (Draws &draws : part->draws)
      if (const tb_status status = note_start(draws, stream)) return status;
    return TB_OK;
  } catch (const std::exception &error) {
    runtime.device.set_error(TB_INTERNAL, 0, part->device, "graph_launch", error.what());
    return TB_INTERNAL;
  }
}

void destroy(void *handle) {
  auto *part = static_cast<Part *>(handle);
  {
    const std::lock_guard guard(lock);
    std::erase(active, part);
  }
  delete part;
}

const tb_capture_part own_part{sizeof(tb_capture_part), 0, "tb-ops", begin, end, launch, destroy};

// Of the capture that the stream takes part in; NULL: in none.
Part *part_of(tb_stream *stream) {
  void *found = nullptr;
  check(runtime.stream.capture_part(stream, &own_part, &found), "capture_part", -1);
  return static_cast<Part *>(found);
}

Draws &draws_of(Part &part, const at::Generator &generator) {
  for (Draws &draws : part.draws)
    if (draws.generator == generator) return draws;
  part.draws.push_back({generator, generator.current_seed(), generator.get_offset()});
  return part.draws.back();
}

// With the generator's mutex held.
Stretch reserve_captured(Part &part, at::Generator &generator, uint64_t counters) {
  const std::lock_guard guard(lock);
  Draws &draws = draws_of(part, generator);
  const uint64_t offset = generator.get_offset();
  TORCH_CHECK(generator.current_seed() == draws.seed && offset >= draws.start,
              "a generator was seeded, or set back to a state from before, inside a capture. Every launch draws from "
              "where the generator is then: seed it before the capture or before a launch");
  generator.set_offset(offset + counters);
  draws.used = std::max(draws.used, offset - draws.start + counters);
  return {0, offset - draws.start, draws.launch};
}

void refuse_others(const at::Generator &generator) {
  const std::lock_guard guard(lock);
  for (const Part *part : active)
    for (const Draws &draws : part->draws)
      TORCH_CHECK(!(draws.generator == generator),
                  "the generator is drawn from in a capture that is in progress: give this work a generator of its "
                  "own (generator=), or wait until the capture has ended");
}

} // namespace

Stretch reserve_counters(const std::optional<at::Generator> &given, c10::DeviceIndex device, uint64_t counters) {
  const c10::Device here(device_type, device);
  at::Generator generator = given && given->defined() ? *given : at::globalContext().defaultGenerator(here);
  TORCH_CHECK(generator.device().type() == device_type, "Expected a '", here.type(),
              "' device type for generator but found '", generator.device().type(), "'");
  const std::lock_guard<std::mutex> guard(generator.mutex());
  if (any_capture()) [[unlikely]] {
    if (Part *part = part_of(current_stream(device))) return reserve_captured(*part, generator, counters);
    refuse_others(generator);
  }
  Stretch stretch{generator.current_seed(), generator.get_offset(), nullptr};
  generator.set_offset(stretch.offset + counters);
  return stretch;
}

void connect_captures() { check(runtime.stream.add_capture_part(&own_part), "add_capture_part", -1); }

bool in_capture(tb_stream *stream) { return any_capture() && part_of(stream); }

} // namespace tb
