// The state of generators, and the default generators.
#include "state/generator.h"

#include <map>
#include <mutex>
#include <utility>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace tb::generator {
namespace {

// One lock guards all states. It is held for a few instructions, and fork() can be made to wait for a single lock.
struct Shared {
  std::mutex mutex;
  std::map<int32_t, tb_generator *> defaults; // never destroyed: threads may use them until the process ends
  uint64_t seed = default_seed;
};

Shared &shared() {
  static Shared &instance = []() -> Shared & {
    auto *made = new Shared;
#if !defined(_WIN32)
    // Without this handler, a child that is forked while another thread holds the lock would wait for ever.
    pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); }, [] { shared().mutex.unlock(); });
#endif
    return *made;
  }();
  return instance;
}

} // namespace

State get_state(const tb_generator &generator) {
  const std::lock_guard lock(shared().mutex);
  return generator.state;
}

void set_state(tb_generator &generator, State state) {
  const std::lock_guard lock(shared().mutex);
  generator.state = state;
}

State reserve(tb_generator &generator, uint64_t words) {
  const std::lock_guard lock(shared().mutex);
  const State before = generator.state;
  generator.state.offset += words / 4 + (words % 4 != 0);
  return before;
}

void capture_begin(tb_generator &generator) {
  const std::lock_guard lock(shared().mutex);
  if (generator.capturing)
    throw Refusal{TB_FAILED_PRECONDITION,
                  "capture_begin on a generator that is being captured. End that capture first"};
  generator.capturing = true;
  generator.kept = std::exchange(generator.state, State{generator.state.seed, 0});
}

uint64_t capture_end(tb_generator &generator) {
  const std::lock_guard lock(shared().mutex);
  if (!generator.capturing)
    throw Refusal{TB_FAILED_PRECONDITION,
                  "capture_end on a generator that is not being captured. Begin a capture first"};
  generator.capturing = false;
  return 4 * std::exchange(generator.state, generator.kept).offset;
}

bool is_capturing(const tb_generator &generator) {
  const std::lock_guard lock(shared().mutex);
  return generator.capturing;
}

tb_generator &default_generator(int32_t device, int32_t device_count) {
  if (device < 0 || device >= device_count)
    throw Refusal{TB_OUT_OF_RANGE, "the default generator of device " + std::to_string(device) +
                                       " was asked for, but devices go from 0 to " + std::to_string(device_count - 1) +
                                       ". Give one of them"};
  const std::lock_guard lock(shared().mutex);
  tb_generator *&found = shared().defaults[device];
  if (!found) found = new tb_generator{{shared().seed, 0}};
  return *found;
}

void seed_all(uint64_t seed) {
  const std::lock_guard lock(shared().mutex);
  shared().seed = seed;
  for (const auto &[device, generator] : shared().defaults) generator->state = {seed, 0};
}

} // namespace tb::generator
