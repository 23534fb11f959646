// exports.cpp -- the symbols of the library. Each is resolved when somebody asks for it, so that it can be hidden.
#include <cstdint>

#include "entry.h"
#include "functions.h"

namespace {
// dlsym calls the resolver and gives what it gives: NULL is a symbol that is not there.
using Anything = void (*)();
template <class F> Anything shown(const char *name, F function) {
  return sim::hidden(name) ? nullptr : reinterpret_cast<Anything>(function);
}
} // namespace

#define SIM_FUNCTION(name, needs)                                                                                      \
  extern "C" [[gnu::visibility("hidden")]] Anything resolve_##name() {                                                 \
    return shown(#name, &sim::Entry<#name, sim::Needs::needs, &sim::name>::call);                                      \
  }                                                                                                                    \
  extern "C" [[gnu::visibility("default")]] void name() __attribute__((ifunc("resolve_" #name)));
#include "functions.inc"
