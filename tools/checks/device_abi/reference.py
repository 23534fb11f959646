"""The reference page: the rules, and every function with its own."""

from __future__ import annotations

from checks.device_abi.slots import Group, Slot


def _function(slot: Slot) -> list[str]:
    lines = [
        "",
        f"### {slot.name}",
        "",
        f"    {slot.signature}",
        "",
        f"{slot.need.capitalize()}. {slot.preface}".rstrip(),
    ]
    return [*lines, "", *(f"- `{rule}` {text}" for rule, text in slot.rules)]


def _group(group: Group) -> list[str]:
    lines = ["", f"## {group.name}", "", group.title[0].upper() + group.title[1:]]
    if group.comment:
        lines += ["", group.comment]
    return lines + [line for slot in group.slots for line in _function(slot)]


def reference(groups: list[Group], graph: list[Group], rules: list[tuple[str, str]]) -> str:
    """The page for the driver table, tb.graph, and the rules of driver.h."""
    required = [slot for slot in groups[0].slots if slot.need == "REQUIRED"]
    total = sum(len(group.slots) for group in groups)
    lines = [
        "# Driver table reference",
        "",
        "<!-- Written by tools/checks/abi.py from driver.h, driver_slots.inc and graph_slots.inc, which you edit. -->",
        "",
        f"{total} functions in {len(groups)} groups, in frozen order. A driver must have the {len(required)} required "
        f"ones of {groups[0].name}; every other group",
        "is offered whole (its required functions) or not at all. Types are in",
        "[`tb/driver.h`](../shared/include/tb/driver.h). Each rule has an id, which the cases of the contract name;",
        "`.absent` is what the host does for a driver without the function.",
        "",
        "## Rules for every function",
        "",
        *(f"- `{rule}` {text}" for rule, text in rules if rule[0] != "V"),
        "",
        "## Growth",
        "",
        *(f"- `{rule}` {text}" for rule, text in rules if rule[0] == "V"),
    ]
    for group in [*groups, *graph]:
        lines += _group(group)
    return "\n".join(lines) + "\n"
