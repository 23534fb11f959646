// How a microkernel divides its work among threads: by a loop of the caller's, so that no thread library is known here.
#pragma once
#include <cstdint>

namespace tb::ops::microkernels {

// Runs body(state, begin, end) over parts of [0, count), each of at least `grain` elements but for the last, on the
// threads that the caller chooses. Returns when all parts are done.
class ParallelLoop {
public:
  using Body = void (*)(const void *state, int64_t begin, int64_t end);
  using Run = void (*)(int64_t count, int64_t grain, Body body, const void *state);

  constexpr explicit ParallelLoop(Run run) : run_(run) {}

  // loop(begin, end) is called concurrently and must not throw.
  template <class Loop> void operator()(int64_t count, int64_t grain, const Loop &loop) const {
    const auto body = [](const void *state, int64_t begin, int64_t end) {
      (*static_cast<const Loop *>(state))(begin, end);
    };
    run_(count, grain, body, &loop);
  }

private:
  Run run_;
};

// All of it on the calling thread.
inline constexpr ParallelLoop one_thread([](int64_t count, int64_t, ParallelLoop::Body body, const void *state) {
  if (count > 0) body(state, 0, count);
});

} // namespace tb::ops::microkernels
