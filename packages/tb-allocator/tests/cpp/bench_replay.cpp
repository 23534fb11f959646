// bench_replay.cpp -- a trace from standard input, replayed without Python; run it under callgrind. Not a test.
//
//   xz -dc TRACE | valgrind --tool=callgrind '--toggle-collect=*Player::play*' tests/cpp/bench_replay [K [SETTINGS]]
// K: the capacity as a multiple of the most live bytes; 0: no limit. Prints the replay of every repetition.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "replay/emulated_host.h"
#include "replay/replay.h"

int main(int count, char **arguments) {
  tb::allocator::install_emulated_host();
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  tb::allocator::Trace trace = tb::allocator::parse_trace(text);
  tb::allocator::ReplaySettings settings;
  double k = count > 1 ? atof(arguments[1]) : 0;
  if (k > 0) settings.capacity = static_cast<uint64_t>(k * static_cast<double>(trace.peak_live));
  std::string wrong = tb::allocator::parse_configuration(count > 2 ? arguments[2] : "", &settings.configuration);
  if (count > 3) settings.lag = static_cast<uint64_t>(atoll(arguments[3]));
  if (!wrong.empty()) {
    fprintf(stderr, "%s\n", wrong.c_str());
    return 1;
  }
  tb::allocator::ReplayResult result = tb::allocator::replay(trace, settings);
  for (const tb::allocator::Repetition &one : result.repetitions) {
    printf("%s %6.2f %% of reserved, %5.1f ns/event,", one.completed ? "ok    " : "FAILED",
           100.0 * static_cast<double>(trace.peak_live) / static_cast<double>(one.peak_reserved),
           one.seconds * 1e9 / static_cast<double>(trace.events.size()));
    for (size_t call = 0; call < one.calls.size(); ++call)
      if (one.calls[call]) printf(" %s %llu", tb_driver::names[call], static_cast<unsigned long long>(one.calls[call]));
    if (!one.completed)
      printf(" (at event %llu, %llu bytes)", static_cast<unsigned long long>(one.failed_event),
             static_cast<unsigned long long>(one.failed_bytes));
    printf("\n");
  }
}
