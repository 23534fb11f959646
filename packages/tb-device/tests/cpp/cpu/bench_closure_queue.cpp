// Measures the closure queue: cost of a submit, latency of submit and synchronise. Not a test.
//
//   bench_ring [spin ...]     prints nanoseconds, the median of several repeats, for each value of the option "spin"
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;
using Clock = std::chrono::steady_clock;

namespace {

struct Payload {
  char bytes[64];
};
const tb_closure nothing = {sizeof(tb_closure), 0, "nothing",
                            [](void *, const tb_closure_context *) -> tb_status { return TB_OK; }, [](void *) {}};

template <class Body> double median_ns(int repeats, int each, Body body) {
  std::vector<double> samples;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    for (int turn = 0; turn < each; ++turn) body();
    samples.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / each);
  }
  std::nth_element(samples.begin(), samples.begin() + repeats / 2, samples.end());
  return samples[static_cast<size_t>(repeats) / 2];
}

void submit(OpenedDriver &driver, tb_stream *stream) {
  void *storage = nullptr;
  driver.api.closure_reserve(driver.self, stream, sizeof(Payload), &storage);
  std::memset(storage, 1, sizeof(Payload));
  driver.api.closure_commit(driver.self, stream, storage, &nothing);
}

void measure(const char *spin) {
  OpenedDriver driver(Options{{"spin", spin}});
  tb_stream *stream = driver.default_stream();
  const auto synchronize = [&] { driver.api.stream_synchronize(driver.self, stream); };
  submit(driver, stream);
  synchronize();

  // The worker is busy in a closure and does not touch the queue, so that only the producer's cost is measured.
  std::vector<double> alone;
  for (int repeat = 0; repeat < 25; ++repeat) {
    test::Gate gate;
    driver.submit(stream, [&gate] { gate.pass(); });
    alone.push_back(median_ns(1, 2000, [&] { submit(driver, stream); }));
    gate.open();
    synchronize();
  }
  std::sort(alone.begin(), alone.end());
  // The worker runs closures as they are submitted, and the queue is never full for long.
  const double running = median_ns(25, 2000, [&] { submit(driver, stream); });
  synchronize();
  const double latency = median_ns(25, 400, [&] {
    submit(driver, stream);
    synchronize();
  });
  std::vector<double> idle; // measured after the worker has fallen asleep
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    idle.push_back(median_ns(1, 1, [&] {
      submit(driver, stream);
      synchronize();
    }));
  }
  std::sort(idle.begin(), idle.end());
  tb_event *event = driver.create_event();
  const double record = median_ns(25, 4000, [&] {
    driver.api.event_record(driver.self, event, stream);
    driver.api.event_query(driver.self, event);
  });
  driver.api.event_destroy(driver.self, event);
  std::printf("spin %7s: submit %6.1f ns (worker busy elsewhere), %6.1f ns (worker consuming); submit+synchronise "
              "%8.0f ns, after 500 us of idleness %8.0f ns; event record+query %5.1f ns\n",
              spin, alone[alone.size() / 2], running, latency, idle[idle.size() / 2], record);
}

} // namespace

int main(int argument_count, char **arguments) {
  if (argument_count == 1) measure("1000");
  for (int place = 1; place < argument_count; ++place) measure(arguments[place]);
}
