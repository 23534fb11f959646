// Devices that run tb_contract_reduce and tb_contract_count wrongly: closures in the place of the kernels.
#include <cstring>
#include <new>

#include "contract/mutant.h"
#include "tb/contract_kernels.h"

namespace tb::contract::kernel_reductions_mutants {
namespace {

// A launch whose first two arguments were taken.
struct Launched {
  uint32_t blocks, threads;
  char values[2][sizeof(tb_contract_reduction)];
  template <class Value> Value argument(size_t number) const {
    Value value;
    std::memcpy(&value, values[number], sizeof value);
    return value;
  }
};

using Body = void (*)(const Launched &launched);

const char *replaced; // the kernel's name
Body body;
tb_function *function_replaced; // a case loads one module

tb_status queue(tb_driver *self, tb_stream *stream, const tb_launch &config) {
  static constexpr tb_closure closure = {sizeof(tb_closure), 0, "launch",
                                         [](void *storage, const tb_closure_context *) -> tb_status {
                                           body(*static_cast<Launched *>(storage));
                                           return TB_OK;
                                         },
                                         [](void *) {}};
  void *storage = nullptr;
  if (const tb_status status = real().closure_reserve(self, stream, sizeof(Launched), &storage)) return status;
  auto *launched = new (storage) Launched{config.grid[0], config.block[0], {}};
  for (uint32_t i = 0; i < config.arg_count; ++i) std::memcpy(launched->values[i], config.args[i], config.arg_sizes[i]);
  return real().closure_commit(self, stream, storage, &closure);
}

// Launches of the kernel run `instead`.
void replace_kernel(tb_driver_api &api, const char *name, Body instead) {
  replaced = name;
  body = instead;
  api.module_function = [](tb_driver *self, tb_module *module, const char *asked, tb_function **out) {
    const tb_status status = real().module_function(self, module, asked, out);
    if (status == TB_OK && std::strcmp(asked, replaced) == 0) function_replaced = *out;
    return status;
  };
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    return function == function_replaced ? queue(self, stream, *config) : real().launch(self, stream, function, config);
  };
}

// What a thread adds before the first barrier.
unsigned sum_of(const tb_contract_reduction &reduction, unsigned row, unsigned thread, unsigned threads) {
  unsigned sum = 0;
  for (unsigned column = thread; column < reduction.columns; column += threads)
    sum += reduction.src[row * reduction.columns + column] * reduction.weights[column % TB_CONTRACT_WEIGHTS];
  return sum;
}

TB_MUTANT(barrier_does_nothing, "cpu", "launch.7", "KRN-01",
          "threads pass a barrier before the others have reached it") {
  replace_kernel(api, "tb_contract_reduce", [](const Launched &launched) {
    const auto reduction = launched.argument<tb_contract_reduction>(0);
    unsigned sums[TB_CONTRACT_BLOCK] = {};
    for (unsigned row = 0; row < launched.blocks * reduction.rounds; ++row)
      for (unsigned thread = 0; thread < launched.threads; ++thread) { // each runs to its end
        sums[thread] = sum_of(reduction, row, thread, launched.threads);
        for (unsigned half = launched.threads / 2; half > 0; half /= 2)
          if (thread < half) sums[thread] += sums[thread + half];
        if (thread == 0) reduction.dst[row] = sums[0];
      }
  });
}

TB_MUTANT(barrier_once_in_a_loop, "cpu", "launch.7", "KRN-01", "a barrier in a loop holds in its first round only") {
  replace_kernel(api, "tb_contract_reduce", [](const Launched &launched) {
    const auto reduction = launched.argument<tb_contract_reduction>(0);
    unsigned sums[TB_CONTRACT_BLOCK];
    for (unsigned row = 0; row < launched.blocks * reduction.rounds; ++row) {
      for (unsigned thread = 0; thread < launched.threads; ++thread)
        sums[thread] = sum_of(reduction, row, thread, launched.threads);
      for (unsigned thread = 0; thread < launched.threads; ++thread)
        for (unsigned half = launched.threads / 2; half > 0; half /= 2)
          if (thread < half) sums[thread] += sums[thread + half];
      reduction.dst[row] = sums[0];
    }
  });
}

TB_MUTANT(shared_memory_of_all_blocks, "cpu", "launch.7", "KRN-01",
          "blocks that run at the same time have one shared array") {
  replace_kernel(api, "tb_contract_reduce", [](const Launched &launched) {
    const auto reduction = launched.argument<tb_contract_reduction>(0);
    unsigned sums[TB_CONTRACT_BLOCK];
    const unsigned rows = launched.blocks * reduction.rounds;
    for (unsigned first = 0; first < rows; first += 2) { // two at a time
      const unsigned last = first + 1 < rows ? first + 1 : first;
      for (unsigned row = first; row <= last; ++row)
        for (unsigned thread = 0; thread < launched.threads; ++thread)
          sums[thread] = sum_of(reduction, row, thread, launched.threads);
      unsigned total = 0;
      for (unsigned thread = 0; thread < launched.threads; ++thread) total += sums[thread];
      for (unsigned row = first; row <= last; ++row) reduction.dst[row] = total;
    }
  });
}

TB_MUTANT(atomics_within_a_block, "cpu", "launch.8", "KRN-07",
          "additions of blocks that run at the same time are lost") {
  replace_kernel(api, "tb_contract_count", [](const Launched &launched) {
    auto *counts = launched.argument<unsigned *>(0);
    const auto bins = launched.argument<unsigned>(1);
    unsigned last = launched.blocks * launched.threads; // what the other blocks add is lost
    for (unsigned thread = 0; thread < launched.threads; ++thread)
      __atomic_fetch_add(&counts[--last % bins], 1, __ATOMIC_RELAXED);
  });
}

} // namespace
} // namespace tb::contract::kernel_reductions_mutants
