"""The differences between two versions of torch, as rows, as a page in Markdown and as a summary for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drift.facts import AUTOCAST, Facts, Interface, Operator
from drift.overridden import Subclass, overrides, virtuals

MOST_NAMES = 12  # of one kind, in the summary


@dataclass(frozen=True)
class Change:
    """Something that is new, is gone or differs."""

    what: str
    name: str
    detail: str = ""
    interface: str = ""
    """The class of a virtual function; `name` is empty if the class itself is new or gone."""


@dataclass
class Changes:
    """All differences: those of the lists of names are by kind."""

    virtuals: list[Change]
    operators: list[Change]
    names: dict[str, list[Change]]


def compare(before: Facts, after: Facts) -> Changes:
    """What differs between two versions."""
    classes = sorted(before.interfaces.keys() | after.interfaces.keys())
    operators = sorted(before.operators.keys() | after.operators.keys())
    return Changes(
        [one for name in classes for one in _virtuals(name, before.interfaces.get(name), after.interfaces.get(name))],
        [one for name in operators for one in _operator(name, before.operators.get(name), after.operators.get(name))],
        {kind: _names(before.names.get(kind, ()), names) for kind, names in after.names.items()},
    )


def _names(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    return [Change("new" if name in after else "gone", name) for name in sorted(set(before) ^ set(after))]


def _virtuals(name: str, before: Interface | None, after: Interface | None) -> list[Change]:
    if before is None or after is None:
        return [Change("new class" if before is None else "class is gone", "", interface=name)]
    found = []
    for key in sorted(before.virtuals.keys() | after.virtuals.keys()):
        old, new = before.virtuals.get(key), after.virtuals.get(key)
        if old is None and new:
            found.append(Change("new", key, f"{new.kind}, returns {new.returns}", name))
        elif new is None:
            found.append(Change("gone", key, interface=name))
        elif old and new != old:
            detail = f"{old.kind} {old.returns}, now {new.kind} {new.returns}"
            found.append(Change("differs", key, detail, name))
    return found


def _operator(name: str, before: Operator | None, after: Operator | None) -> list[Change]:
    if before is None or after is None:
        present = before or after
        assert present
        structured = "structured " if present.structured else ""
        return [Change("new" if before is None else "gone", name, f"{structured}{present.schema}")]
    found = []
    if before.schema != after.schema:
        found.append(Change("other arguments", name, f"{before.schema}, now {after.schema}"))
    if before.structured != after.structured:
        found.append(Change("became structured" if after.structured else "no longer structured", name))
    keys = [f"+{key}" for key in after.dispatch if key not in before.dispatch]
    keys += [f"-{key}" for key in before.dispatch if key not in after.dispatch]
    if keys:
        found.append(Change("other dispatch keys", name, ", ".join(keys)))
    return found


def subclasses_of(ours: Sequence[Subclass], name: str, after: Facts) -> list[Subclass]:
    """Our classes that derive from a class of PyTorch, directly or through others of PyTorch."""

    def derives(base: str) -> bool:
        interface = after.interfaces.get(base)
        return base == name or bool(interface and any(derives(one) for one in interface.bases))

    return [subclass for subclass in ours if any(derives(base) for base in subclass.bases)]


def _state(change: Change, after: Facts, ours: Sequence[Subclass]) -> str:
    """Which of our classes override a function, and which do not."""
    derived = subclasses_of(ours, change.interface, after)
    if not change.name:
        return ", ".join(f"{subclass.name} derives from it" for subclass in derived) or "no class of ours"
    found = []
    for subclass in derived:
        keys = [one.key for base in subclass.bases for one in virtuals(after.interfaces, base).values()]
        verb = "overrides it" if overrides(subclass, change.name, keys) else "does not override it"
        found.append(f"{subclass.name} {verb}")
    return "; ".join(found) or "no class of ours"


def _builds(before: Facts, after: Facts) -> str:
    """A warning if one of the two is a build for the CPU only."""
    if before.version.endswith("+cpu") == after.version.endswith("+cpu"):
        return ""
    return "One of the two is built without CUDA: names of CUDA's libraries are in the other only."


def page(before: Facts, after: Facts, changes: Changes, ours: Sequence[Subclass], problems: Sequence[str]) -> str:
    """The report in Markdown, with what the check of our overrides says."""
    lines = [
        f"# What torch {after.minor} offers to a backend, compared with {before.minor}",
        "",
        f"Written by `nox -s check-drift -- {before.minor} {after.minor}`; torch {before.version} and {after.version}.",
        _builds(before, after),
        "",
        "## Our overrides",
        "",
        *([f"- {problem}" for problem in problems] or ["Every virtual function is overridden or listed."]),
    ]
    rows = [
        [change.interface, change.what, _code(change.name), change.detail, _state(change, after, ours)]
        for change in changes.virtuals
    ]
    lines += _table("Virtual functions", ["class", "change", "function", "declaration", "here"], rows)
    rows = [[change.what, _code(change.name), _code(change.detail)] for change in changes.operators]
    lines += _table("Native functions", ["change", "operator", "schema or dispatch keys"], rows)
    for kind, found in changes.names.items():
        lines += _table(_title(kind), ["change", "name"], [[change.what, _code(change.name)] for change in found])
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _title(kind: str) -> str:
    if kind in AUTOCAST:
        return f"Operators with kernels for {kind}"
    return f"Entries of {kind}" if kind.endswith("_db") else kind[0].upper() + kind[1:]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["", f"## {title}", "", "No difference."]
    cells = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return ["", f"## {title}", "", *(f"| {' | '.join(row)} |" for row in cells)]


def summary(before: Facts, after: Facts, changes: Changes, ours: Sequence[Subclass]) -> str:
    """The differences by name, as far as they are few. Functions of classes that ours derive from are always named."""
    lines = [f"torch {before.version} to {after.version}. {_builds(before, after)}".strip()]
    others: dict[str, list[Change]] = {}
    for change in changes.virtuals:
        if subclasses_of(ours, change.interface, after):
            name = "::".join(filter(None, [change.interface, change.name]))
            lines.append(f"  {change.what}: {name}: {_state(change, after, ours)}")
        else:
            others.setdefault(f"{change.interface}, of which no class is derived here", []).append(change)
    kinds = {_title(kind): found for kind, found in changes.names.items()}
    for title, found in [*others.items(), ("Native functions", changes.operators), *kinds.items()]:
        by_what: dict[str, list[str]] = {}
        for change in found:
            by_what.setdefault(change.what, []).append(change.name.partition("(")[0])
        lines += [f"  {title}: {len(found)}"] if found else []
        for what, names in by_what.items():
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            lines.append(f"    {what}: {', '.join(names[:MOST_NAMES])}{more}")
    return "\n".join(lines)
