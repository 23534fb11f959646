// export.h -- symbols that are resolved when they are looked up, so that each can be hidden.
#pragma once

#include "entry.h"

namespace sim {

// dlsym calls the resolver and returns its result. NULL means that the symbol does not exist.
using Anything = void (*)();
template <class F> Anything shown(const char *name, F function) {
  return hidden(name) ? nullptr : reinterpret_cast<Anything>(function);
}

} // namespace sim

#define SIM_EXPORT(name, function)                                                                                     \
  extern "C" [[gnu::visibility("hidden")]] sim::Anything resolve_##name() { return sim::shown(#name, function); }      \
  extern "C" [[gnu::visibility("default")]] void name() __attribute__((ifunc("resolve_" #name)));
