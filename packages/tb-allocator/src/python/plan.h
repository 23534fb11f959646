// plan.h -- plans for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "plan/planner.h"

namespace tb::allocator {

nanobind::dict as_dict(const PlanFigures &figures);
// Defines tb_allocator.Plan; Arena.plan() and tb_allocator.plan() make them.
void bind_plan(nanobind::module_ &m);
// keep: the arena's Python object, which a step also enters; none: the device's own heap.
nanobind::object make_plan(Heap &heap, nanobind::handle keep, const std::string &name, int64_t warmup);

} // namespace tb::allocator
