// Layers used at run time from Python; tb_device/layers.py gives them their shape.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "host/errors.h"
#include "layers/fault/fault.h"
#include "layers/framework/stack.h"
#include "layers/leak/leak.h"
#include "registry/registry.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::device {
namespace {

template <class L> L &layer_of(Driver &driver) {
  L *layer = driver.open.load() ? layers::find<L>(driver.self) : nullptr;
  if (layer) return *layer;
  throw Failure{TB_FAILED_PRECONDITION,
                0,
                -1,
                driver.name,
                std::string("layer ") + L::name,
                std::string("the driver is closed or was opened without the layer ") + L::name +
                    ". Set TB_LAYERS=" + L::name + " before it is opened, or open it with the option layers"};
}

void fault_arm(Driver &driver, const std::string &options) {
  layers::Fault &layer = layer_of<layers::Fault>(driver);
  try {
    layer.arm(options);
  } catch (const layers::BadSpec &error) {
    throw Failure{TB_INVALID_ARGUMENT, 0, -1, driver.name, "layer fault", error.what()};
  }
}

nb::tuple fault_counts(Driver &driver) {
  const layers::Fault &layer = layer_of<layers::Fault>(driver);
  return nb::make_tuple(layer.calls(), layer.fired());
}

nb::list leak_live(Driver &driver) {
  nb::list out;
  for (const layers::LiveObject &one : layer_of<layers::Leak>(driver).live())
    out.append(nb::make_tuple(name_of(one.kind), reinterpret_cast<uintptr_t>(one.handle), one.size, one.call,
                              name_of(one.made_by)));
  return out;
}

} // namespace

void bind_layers(nb::module_ &module) {
  module.def("fault_arm", fault_arm, "driver"_a, "options"_a,
             "Arms the layer fault with \"key=value,...\"; \"\" disarms it. Counts from 0 again.");
  module.def("fault_counts", fault_counts, "driver"_a, nb::sig("def fault_counts(driver: Driver) -> tuple[int, int]"),
             "Calls to the chosen functions, and faults given, since the layer was armed.");
  module.def("leak_live", leak_live, "driver"_a,
             nb::sig("def leak_live(driver: Driver) -> list[tuple[str, int, int, int, str]]"),
             "What the layer leak sees alive: kind, handle, bytes, number and function of the call that made it.");
}

} // namespace tb::device
