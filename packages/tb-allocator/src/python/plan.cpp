// plan.cpp -- tb_allocator.Plan.
#include "python/plan.h"

#include <nanobind/stl/string.h>

#include "heap/device_heaps.h"
#include "python_errors.h"
#include "table/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::allocator {
namespace {

struct PythonPlan {
  Heap *heap;
  Plan *plan; // exists as long as the heap, which is never destroyed
  nb::object arena;

  void begin() {
    tb_status status;
    {
      nb::gil_scoped_release released; // it may wait for the device, and compute
      status = guarded(heap->device(), "plan", [&] { return planner_of(*heap).begin_step(*plan); });
    }
    check(status, "plan", heap->device());
    if (arena.is_none()) return;
    try {
      arena.attr("__enter__")();
    } catch (...) {
      planner_of(*heap).end_step(*plan, false);
      throw;
    }
  }
  void end(bool completed) {
    if (!arena.is_none()) arena.attr("__exit__")(nb::none(), nb::none(), nb::none());
    planner_of(*heap).end_step(*plan, completed);
  }
  void reset() {
    tb_status status;
    {
      nb::gil_scoped_release released;
      status = guarded(heap->device(), "plan", [&] { return planner_of(*heap).reset_plan(*plan); });
    }
    check(status, "plan", heap->device());
  }
  template <class Read> auto read(Read read) const { return planner_of(*heap).read_plan(*plan, read); }
};

} // namespace

nb::dict as_dict(const PlanFigures &figures) {
  nb::dict out;
  out["steps"] = figures.steps;
  out["replays"] = figures.replays;
  out["divergences"] = figures.divergences;
  out["hits"] = figures.hits;
  out["handovers"] = figures.handovers;
  out["allocations"] = figures.allocations;
  out["placed"] = figures.placed;
  out["reserved_bytes"] = figures.reserved;
  out["peak_bytes"] = figures.peak;
  out["utilisation"] =
      figures.reserved ? static_cast<double>(figures.peak) / static_cast<double>(figures.reserved) : 0.0;
  out["planning_seconds"] = figures.seconds;
  return out;
}

nb::object make_plan(Heap &heap, nb::handle keep, const std::string &name, int64_t warmup) {
  if (warmup < 1 || warmup > 1000) throw nb::value_error("warmup is a number of repetitions, from 1 to 1000");
  return nb::cast(PythonPlan{&heap, planner_of(heap).plan(name, static_cast<uint32_t>(warmup)), nb::borrow(keep)});
}

void bind_plan(nb::module_ &m) {
  nb::class_<PythonPlan>(
      m, "Plan",
      "A step that repeats, whose allocations get places computed beforehand; of Arena.plan() and "
      "plan().\n\n`with plan:` is one repetition. The first ones are recorded; then one piece of "
      "memory is reserved that holds\nall of the step, and each allocation is served by its position "
      "in the step, without a call of the driver. A\nrepetition that asks for something else goes on "
      "as without a plan; when that persists, it is recorded again.")
      .def(
          "__enter__",
          [](nb::object self) {
            nb::cast<PythonPlan &>(self).begin();
            return self;
          },
          nb::sig("def __enter__(self) -> Plan"))
      .def(
          "__exit__", [](PythonPlan &self, nb::handle kind, nb::handle, nb::handle) { self.end(kind.is_none()); },
          "kind"_a.none(), "error"_a.none(), "traceback"_a.none(),
          nb::sig("def __exit__(self, kind: object, error: object, traceback: object) -> None"))
      .def("reset", &PythonPlan::reset,
           "Give the plan's memory to the arena, whose trim() gives it back, and record again. Waits for the device.\n"
           "FailedPreconditionError inside a step.")
      .def(
          "statistics",
          [](const PythonPlan &self) { return as_dict(self.read([](const Plan &plan) { return plan.figures; })); },
          nb::sig("def statistics(self) -> dict[str, int | float]"),
          "Since the plan began: steps, replays (steps served as planned throughout), divergences (steps that were "
          "not),"
          "\nhits (allocations served from their places). Of the active plan: allocations of the step, those placed "
          "(the\nothers outlive it), reserved_bytes, peak_bytes alive at one time, their quotient utilisation, "
          "handovers "
          "(waits\nof a stream for another, on the device), planning_seconds.")
      .def_prop_ro(
          "name", [](const PythonPlan &self) { return self.plan->name; }, "The name given to plan().")
      .def_prop_ro(
          "state",
          [](const PythonPlan &self) { return self.read([](const Plan &plan) { return name_of(plan.state); }); },
          "\"recording\"; \"ready\" to be placed by the next step; \"replaying\"; \"diverged\": the last step was not "
          "the "
          "planned one.");
}

} // namespace tb::allocator
