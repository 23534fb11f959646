// export.h -- symbols that are resolved when somebody asks for them, so that each can be hidden.
#pragma once

#include "entry.h"

namespace sim {

// dlsym calls the resolver and gives what it gives: NULL is a symbol that is not there.
using Anything = void (*)();
template <class F> Anything shown(const char *name, F function) {
  return hidden(name) ? nullptr : reinterpret_cast<Anything>(function);
}

} // namespace sim

#define SIM_EXPORT(name, function)                                                                                     \
  extern "C" [[gnu::visibility("hidden")]] sim::Anything resolve_##name() { return sim::shown(#name, function); }      \
  extern "C" [[gnu::visibility("default")]] void name() __attribute__((ifunc("resolve_" #name)));
