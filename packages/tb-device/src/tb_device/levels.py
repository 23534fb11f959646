"""Levels of a driver, from 0 (eight functions) to 4, and which functions lead to the next one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from . import _core

GRAPH_EXTENSION = "tb.graph"


@dataclass(frozen=True)
class Level:
    """What a driver of this level has, beyond the levels below.

    needs: groups or extensions; of a tuple with several, one is enough. also: groups of this level that it may lack.
    """

    number: int
    gives: str
    needs: tuple[tuple[str, ...], ...]
    also: tuple[str, ...] = ()


LEVELS = (
    Level(0, "memory and copies; every operator, on the CPU", (("CORE",),)),
    Level(1, "streams, events, copies that do not block", (("ASYNC",),)),
    Level(
        2,
        "pinned memory, timing, host calls",
        (("PIN",), ("TIMING",), ("HOSTCALL",)),
        also=("PTR", "SOA", "COPY2D", "VMM", "PEER", "NATIVE", "CLOSURE"),
    ),
    Level(3, "kernels loaded from images", (("MODULE",),)),
    Level(4, "sharing between processes, graphs", (("IPC",), (GRAPH_EXTENSION,))),
)


def level_of(offered: Collection[str]) -> int:
    """The highest level that the offered groups and extensions reach with all levels below; -1 without CORE."""
    reached = -1
    for level in LEVELS:
        if not all(any(one in offered for one in choice) for choice in level.needs):
            break
        reached = level.number
    return reached


def functions_of(group: str) -> list[tuple[str, bool]]:
    """The functions of a group in order, each with whether the group needs it. Empty for an extension."""
    return [(name, need == "REQUIRED") for of, need, name, _ in _core.slots() if of == group]


@dataclass(frozen=True)
class Step:
    """A group or an extension that a driver lacks. functions: with whether each is required in the group."""

    name: str
    required: bool
    instead_of: tuple[str, ...]
    functions: tuple[tuple[str, bool], ...]


def steps_after(offered: Collection[str]) -> tuple[Level | None, list[Step]]:
    """The next level and what leads there, or (None, what else there is) for a driver that has them all."""
    reached = level_of(offered)
    steps = []
    following = LEVELS[reached + 1] if reached + 1 < len(LEVELS) else None
    if following is not None:
        for choice in following.needs:
            if not any(one in offered for one in choice):
                others = {name: tuple(other for other in choice if other != name) for name in choice}
                steps += [Step(name, True, others[name], tuple(functions_of(name))) for name in choice]
    for level in LEVELS[: reached + 2]:
        steps += [Step(name, False, (), tuple(functions_of(name))) for name in level.also if name not in offered]
    return following, steps


def checklist(offered: Collection[str]) -> str:
    """What to write next, as text: the functions of the next level, and groups that may come at any time."""
    following, steps = steps_after(offered)
    lines = []
    if following is not None:
        lines.append(f"Level {following.number} ({following.gives}) needs:")
        for step in steps:
            if step.required:
                choice = f" (or {', '.join(step.instead_of)})" if step.instead_of else ""
                lines.append(f"  {step.name}{choice}: {_functions(step)}")
    optional = [step for step in steps if not step.required]
    if optional:
        lines.append("At any time:")
        lines += [f"  {step.name}: {_functions(step)}" for step in optional]
    return "\n".join(lines) if lines else "Nothing is missing: all groups are offered."


def _functions(step: Step) -> str:
    if not step.functions:
        return f"the extension's table, through get_extension (tb/{step.name.removeprefix('tb.')}.h)"
    return ", ".join(name if required else f"[{name}]" for name, required in step.functions)
