// Chooses the instruction set at the first fill.
#include "processor/instruction_set.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tb::generator {
namespace {

constexpr InstructionSet all[] = {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::portable};

InstructionSet first_choice() {
  const char *asked = std::getenv("TB_GENERATOR_INSTRUCTIONS");
  for (const InstructionSet set : all)
    if (asked && std::strcmp(asked, name_of(set)) == 0 && is_available(set)) return set;
  for (const InstructionSet set : all)
    if (is_available(set)) return set;
  return InstructionSet::portable;
}

std::atomic<InstructionSet> &chosen() {
  static std::atomic<InstructionSet> set{first_choice()};
  return set;
}

} // namespace

const char *name_of(InstructionSet set) {
  switch (set) {
  case InstructionSet::avx2:
    return "avx2";
  case InstructionSet::avx512:
    return "avx512";
  default:
#if defined(__ARM_NEON)
    return "neon";
#else
    return "portable";
#endif
  }
}

bool is_available(InstructionSet set) {
#if TB_X86_SETS
  switch (set) {
  case InstructionSet::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case InstructionSet::avx512:
    return is_available(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
  default:
    return true;
  }
#else
  return set == InstructionSet::portable;
#endif
}

InstructionSet instruction_set() { return chosen().load(std::memory_order_relaxed); }

bool use(InstructionSet set) {
  if (!is_available(set)) return false;
  chosen().store(set, std::memory_order_relaxed);
  return true;
}

} // namespace tb::generator
