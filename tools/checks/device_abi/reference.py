"""Writes the reference pages: the driver table with its rules, and the tables that components offer each other."""

from __future__ import annotations

import re
import textwrap

from checks.device_abi.callers import EVERY, Callers
from checks.device_abi.headers import Declaration, Member, Section
from checks.device_abi.slots import Group, Slot

WRITTEN = "<!-- Written by tools/checks/abi.py from {sources}: edit those, run it. -->"


def _used_by(callers: Callers, table: str, name: str) -> str:
    packages = callers.get((table, name))
    if packages and EVERY in packages:
        return f"Used by {EVERY}."
    return f"Used by {', '.join(packages)}." if packages else "No component calls it."


def _wrapped(declaration: str) -> list[str]:
    """Breaks a declaration after commas into lines of at most 90 columns."""
    kept = declaration.replace(" ", "\0").replace(",\0", ", ")
    lines = textwrap.wrap(kept, 90, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _function(slot: Slot, table: str, callers: Callers) -> list[str]:
    since = re.search(r"Since (\d+\.\d+)", slot.preface)
    lines = [
        "",
        f"### {slot.name}",
        "",
        "```c",
        *_wrapped(f"{slot.signature};"),
        "```",
        "",
        f"{slot.need.capitalize()} in group {slot.group}, since table {since[1] if since else '1.0'}. "
        f"{_used_by(callers, table, slot.name)}",
    ]
    if slot.preface:
        lines += ["", slot.preface]
    return [*lines, "", *(f"- `{rule}` {text}" for rule, text in slot.rules)]


def _group(group: Group, table: str, callers: Callers) -> list[str]:
    lines = ["", f"## {group.name}", "", group.title[0].upper() + group.title[1:]]
    if group.comment:
        lines += ["", group.comment]
    return lines + [line for slot in group.slots for line in _function(slot, table, callers)]


def _type(declaration: Declaration) -> list[str]:
    """A struct, an enumeration or an inline function as the header has it."""
    heading = ["", f"### {declaration.name}"] if declaration.name else []
    comment = ["", _sentence(declaration.comment)] if declaration.comment else []
    source = _wrapped(declaration.source) if declaration.source.endswith(");") else [declaration.source]
    return [*heading, *comment, "", "```c", *source, "```"]


def _types(sections: list[Section], without: str) -> list[str]:
    """The entries of types, without tables, whose functions have entries, and without uncommented inline functions."""
    lines = []
    for section in sections:
        for one in section.declarations:
            is_function = one.source.endswith(");")
            if not one.name.endswith(without) and (one.comment or not is_function):
                lines += _type(one)
    return lines


def _sentence(comment: str) -> str:
    return comment[0].upper() + comment[1:] + ("" if comment.endswith(".") else ".")


def reference(
    groups: list[Group], graph: list[Group], rules: list[tuple[str, str]], header: list[Section], callers: Callers
) -> str:
    """The page of the driver table, tb.graph, the rules and the types of driver.h."""
    required = [slot for slot in groups[0].slots if slot.need == "REQUIRED"]
    total = sum(len(group.slots) for group in groups)
    lines = [
        "# Driver table reference",
        "",
        WRITTEN.format(sources="driver.h, driver_slots.inc, graph_slots.inc and the packages' sources"),
        "",
        f"{total} functions in {len(groups)} groups, in frozen order. A driver must have the {len(required)} required "
        f"ones of {groups[0].name}; every other group",
        "is offered whole (its required functions) or not at all. Types are in",
        "[`tb/driver.h`](../shared/include/tb/driver.h). Each rule has an id, which the cases of the contract name;",
        "`.absent` is what the host does for a driver without the function. The components that use a function are",
        "found in their sources; the contract kit, the layers and tb-device's forwarding call all of them.",
        "",
        "## Rules for every function",
        "",
        *(f"- `{rule}` {text}" for rule, text in rules if rule[0] != "V"),
        "",
        "## Growth",
        "",
        *(f"- `{rule}` {text}" for rule, text in rules if rule[0] == "V"),
    ]
    for group in groups:
        lines += _group(group, "tb_driver_api", callers)
    for group in graph:
        lines += _group(group, "tb_graph_api", callers)
    lines += ["", "## Types and constants", "", "As [`tb/driver.h`](../shared/include/tb/driver.h) has them."]
    return "\n".join(lines + _types(header, "_api")) + "\n"


def _member(table: str, member: Member, before: Member | None, callers: Callers) -> list[str]:
    """The entry of a member. before: the nearest earlier member with a comment, which may describe this one too."""
    text = re.sub(r"^[Ss]ince \d+\.\d+[.:]\s*", "", member.comment)
    if not text and before and re.search(rf"\b{member.name}\b", before.comment):
        text = f"See [{before.name}](#{table}{before.name})"
    lines = ["", f"### {table}.{member.name}", "", "```c", *_wrapped(member.declaration), "```", ""]
    lines.append(f"Since {member.since}. {_used_by(callers, table, member.name)}")
    return [*lines, "", _sentence(text)] if text else lines


def _section(title: str, declarations: list[Declaration], callers: Callers) -> list[str]:
    lines = ["", f"## {title}"]
    for one in declarations:
        if one.name.endswith("_table"):
            lines += ["", _sentence(one.comment)] if one.comment else []
            before = None
            for each in one.members[1:]:
                lines += _member(one.name, each, before, callers)
                before = each if each.comment else before
    return lines + _types([Section(title, declarations)], "_table")


def component_reference(headers: dict[str, tuple[str, list[Section]]], callers: Callers) -> str:
    """The page of the tables of component.h and operator_table.h, and of host_kernel.h.

    headers: file name -> the comment at its head and its sections.
    """
    introduction, sections = headers["component.h"]
    operators = headers["operator_table.h"]
    kernels = headers["host_kernel.h"]
    lines = [
        "# Component tables reference",
        "",
        WRITTEN.format(sources="component.h, operator_table.h, host_kernel.h and the packages' sources"),
        "",
        "What the components offer each other, and what a library of yours may take from them:",
        "[`tb/component.h`](../shared/include/tb/component.h),",
        "[`tb/operator_table.h`](../shared/include/tb/operator_table.h) and, for kernels on the host,",
        "[`tb/host_kernel.h`](../shared/include/tb/host_kernel.h). The table of a driver is in the",
        "[driver table reference](abi-reference.md).",
        "",
        introduction,
    ]
    for section in sections:
        lines += _section(section.title or "The record of a table", section.declarations, callers)
    lines += _section("tb-ops", [one for section in operators[1] for one in section.declarations], callers)
    lines += ["", "## Kernels on the host", "", *_indented_as_code(kernels[0])]
    return "\n".join(lines + _types(kernels[1], "_table")) + "\n"


def _indented_as_code(text: str) -> list[str]:
    """Converts blocks that are indented by two spaces or more to code."""
    lines = []
    for block in text.split("\n\n"):
        rows = block.split("\n")
        code = all(row.startswith("  ") for row in rows)
        lines += [*(["```c", *(row[2:] for row in rows), "```"] if code else rows), ""]
    return lines[:-1]
