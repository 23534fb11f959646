// exercise.cpp -- the program that runs the random operations: exercise OPERATIONS SEED [THREADS].
//
// Prints the counts as JSON. Fails with the promise that was broken, and at which operation.
#include "exercise.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "replay/emulated_host.h"

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: exercise OPERATIONS SEED [THREADS]\n");
    return 2;
  }
  tb::allocator::install_emulated_host();
  uint64_t operations = strtoull(arguments[1], nullptr, 10), seed = strtoull(arguments[2], nullptr, 10);
  auto threads = static_cast<uint32_t>(count > 3 ? strtoul(arguments[3], nullptr, 10) : 1);
  tb::allocator::ExerciseResult result = threads > 1 ? tb::allocator::exercise_threads(operations, seed, threads)
                                                     : tb::allocator::exercise_streams(operations, seed);
  if (!result.broken.empty()) {
    fprintf(stderr, "%s\n", result.broken.c_str());
    return 1;
  }
  printf("{\"allocations\": %" PRIu64 ", \"out_of_memory\": %" PRIu64 ", \"pages_mapped\": %" PRIu64
         ", \"waits\": %" PRIu64 ", \"remapped\": %" PRIu64 ", \"synchronisations\": %" PRIu64 "}\n",
         result.allocations, result.out_of_memory, result.pages_mapped, result.waits, result.remapped,
         result.synchronisations);
}
