// The open driver with layers around it, for one case: the same handles, called through the layers.
#pragma once

#include "contract/kit.h"
#include "layers/framework/stack.h"
#include "layers/layers.h"

namespace tb::contract {

// The kit's own calls (Gate, synchronize) go to the driver directly, and may be given handles from here.
class Layered {
public:
  Layered(Kit &kit, const std::string &spec) : api(kit.api()), self(kit.self()) { put(spec); }
  // Around a driver that is not the kit's.
  Layered(const tb_driver_api &api, tb_driver *self, const std::string &spec) : api(api), self(self) { put(spec); }
  ~Layered() { layers::discard(self); }
  Layered(const Layered &) = delete;
  Layered &operator=(const Layered &) = delete;
  template <class L> L &layer() { return *layers::find<L>(self); }
  tb_driver_api api;
  tb_driver *self;

private:
  void put(const std::string &spec) {
    std::string problem;
    if (layers::apply(spec, Kit::host(), &api, &self, &problem) != TB_OK) throw Failed(problem);
  }
};

} // namespace tb::contract
