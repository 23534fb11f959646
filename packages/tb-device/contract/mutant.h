// Drivers that break one rule each, to prove that the kit's cases notice.
//
//   TB_MUTANT(alloc_misaligned, "cpu", "mem_alloc.1", "MEM-01", "pointers are 8 bytes off") {
//     api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
//       ...real().mem_alloc(self, device, size + 8, flags, out)...
//     };
//   }
//
// A mutant changes the honest driver's table in place; self stays the driver's. One mutant is active in a process.
// State that it needs is static. The named case must fail with it, and pass without.
#pragma once

#include <string>
#include <vector>

#include "tb/driver.h"

namespace tb::contract {

struct Mutant {
  const char *name;
  const char *base;      // the honest driver: "cpu" or "sim"
  const char *rule;      // that it breaks
  const char *caught_by; // the id of the case
  const char *text;      // what it does wrong
  void (*apply)(tb_driver_api &api);
};

const std::vector<Mutant> &all_mutants();
const Mutant *find_mutant(const std::string &name);
// Applies it to a freshly filled table; remembers the honest one for real().
void apply_mutant(const Mutant &mutant, tb_driver_api &api);
const tb_driver_api &real();

struct MutantRegistration {
  explicit MutantRegistration(const Mutant &mutant);
};

} // namespace tb::contract

#define TB_MUTANT(name, base, rule, caught_by, text)                                                                   \
  static void tb_mutant_##name(tb_driver_api &api);                                                                    \
  static const ::tb::contract::MutantRegistration tb_registration_##name(                                              \
      {#name, base, rule, caught_by, text, tb_mutant_##name});                                                         \
  static void tb_mutant_##name([[maybe_unused]] tb_driver_api &api)
