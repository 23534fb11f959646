// Layers used at run time from Python; tb_device/layers.py gives them their shape.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "host/errors.h"
#include "layers/fault/fault.h"
#include "layers/framework/stack.h"
#include "layers/leak/leak.h"
#include "layers/races/races.h"
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

nb::list frames_of(const layers::Races &layer, uint32_t place) {
  nb::list out;
  const layers::Place frames = layer.place(place);
  for (size_t at = 0; at + 1 < frames.size(); at += 2) out.append(nb::make_tuple(frames[at], frames[at + 1]));
  return out;
}

nb::tuple side_of(const layers::Races &layer, const layers::RaceSide &side) {
  return nb::make_tuple(side.use.work, side.use.name, side.use.writes, side.on_host,
                        side.standard ? uintptr_t{0} : reinterpret_cast<uintptr_t>(side.stream), side.device,
                        frames_of(layer, side.use.place), frames_of(layer, side.use.launch_place));
}

nb::list races_found(Driver &driver) {
  const layers::Races &layer = layer_of<layers::Races>(driver);
  nb::list out;
  for (const layers::Race &race : layer.races())
    out.append(
        nb::make_tuple(side_of(layer, race.first), side_of(layer, race.second), race.address, race.bytes, race.reused));
  return out;
}

void races_clear(Driver &driver) { layer_of<layers::Races>(driver).clear(); }

} // namespace

void bind_layers(nb::module_ &module) {
  module.def("fault_arm", fault_arm, "driver"_a, "options"_a,
             "Arms the layer fault with \"key=value,...\"; \"\" disarms it. Counts from 0 again.");
  module.def("fault_counts", fault_counts, "driver"_a, nb::sig("def fault_counts(driver: Driver) -> tuple[int, int]"),
             "Calls to the chosen functions, and faults given, since the layer was armed.");
  module.def("leak_live", leak_live, "driver"_a,
             nb::sig("def leak_live(driver: Driver) -> list[tuple[str, int, int, int, str]]"),
             "What the layer leak sees alive: kind, handle, bytes, number and function of the call that made it.");
  module.def(
      "races_found", races_found, "driver"_a,
      nb::sig("def races_found(driver: Driver) -> list[tuple[tuple[typing.Any, ...], tuple[typing.Any, ...], int, "
              "int, bool]]"),
      "What the layer races found: the two sides, address, bytes, and whether the memory was reused. A side has its "
      "work, the memory's name in it, whether it writes, whether on the host, stream (0: the default one), device, "
      "and frames of Python: of the call, and of the launch of its graph.");
  module.def("races_clear", races_clear, "driver"_a, "Forgets the races that the layer found.");
}

} // namespace tb::device
