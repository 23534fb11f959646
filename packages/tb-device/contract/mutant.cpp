// The registry of mutants.
#include "contract/mutant.h"

#include <algorithm>
#include <string_view>

namespace tb::contract {
namespace {

std::vector<Mutant> &registry() {
  static std::vector<Mutant> mutants;
  return mutants;
}

tb_driver_api honest{};

} // namespace

MutantRegistration::MutantRegistration(const Mutant &mutant) { registry().push_back(mutant); }

const std::vector<Mutant> &all_mutants() {
  static const std::vector<Mutant> &sorted = []() -> std::vector<Mutant> & {
    std::vector<Mutant> &mutants = registry();
    std::sort(mutants.begin(), mutants.end(),
              [](const Mutant &a, const Mutant &b) { return std::string_view(a.name) < std::string_view(b.name); });
    return mutants;
  }();
  return sorted;
}

const Mutant *find_mutant(const std::string &name) {
  for (const Mutant &mutant : all_mutants())
    if (name == mutant.name) return &mutant;
  return nullptr;
}

void apply_mutant(const Mutant &mutant, tb_driver_api &api) {
  if (api.struct_size >= sizeof api) honest = api; // not that of a host that knows less
  mutant.apply(api);
}

const tb_driver_api &real() { return honest; }

} // namespace tb::contract
