// replay.cpp -- replay for Python; tb_allocator.replay is the public module.
#include "python/replay.h"

#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string_view>

#include "python/plan.h"
#include "replay/replay.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::allocator {
namespace {

nb::dict as_dict(const Repetition &one) {
  nb::dict out;
  out["completed"] = one.completed;
  out["failed_event"] = one.failed_event;
  out["failed_bytes"] = one.failed_bytes;
  out["seconds"] = one.seconds;
  out["peak_reserved"] = one.peak_reserved;
  nb::dict calls;
  for (size_t call = 0; call < one.calls.size(); ++call) calls[tb_driver::names[call]] = one.calls[call];
  out["calls"] = calls;
  return out;
}

nb::dict run(const Trace &trace, uint64_t capacity, const std::string &settings, int repetitions, uint64_t lag,
             uint32_t samples, bool plan, bool pinned) {
  ReplaySettings all;
  if (capacity) all.capacity = capacity;
  all.repetitions = repetitions;
  all.lag = lag;
  all.samples = samples;
  all.plan = plan;
  all.pinned = pinned;
  if (std::string wrong = parse_configuration(settings.c_str(), &all.configuration); !wrong.empty())
    throw std::invalid_argument(wrong);
  ReplayResult result;
  {
    nb::gil_scoped_release released;
    result = replay(trace, all);
  }
  nb::list turns, points;
  for (const Repetition &one : result.repetitions) turns.append(as_dict(one));
  for (const Sample &one : result.samples) points.append(nb::make_tuple(one.event, one.allocated, one.reserved));
  nb::dict out;
  out["repetitions"] = turns;
  out["samples"] = points;
  if (plan) out["plan"] = as_dict(result.plan);
  return out;
}

} // namespace

void bind_replay(nb::module_ &m) {
  nb::class_<Trace>(m, "_Trace", "A parsed trace.")
      .def(
          "__init__",
          [](Trace *self, nb::bytes text) {
            new (self) Trace(parse_trace(std::string_view(text.c_str(), text.size())));
          },
          "text"_a)
      .def_prop_ro("events", [](const Trace &self) { return self.events.size(); })
      .def_prop_ro("streams", [](const Trace &self) { return self.streams; })
      .def_ro("peak_live", &Trace::peak_live);
  m.def("_replay", run, "trace"_a, "capacity"_a, "settings"_a, "repetitions"_a, "lag"_a, "samples"_a, "plan"_a,
        "pinned"_a,
        nb::sig("def _replay(trace: _Trace, capacity: int, settings: str, repetitions: int, lag: int, samples: int, "
                "plan: bool, pinned: bool) -> "
                "dict[str, object]"),
        "Replays a trace; tb_allocator.replay explains the result.");
}

} // namespace tb::allocator
