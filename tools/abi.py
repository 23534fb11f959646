"""Checks and documents the device ABI, from the slot list and the header in shared/include/tb.

    python tools/abi.py            write docs/abi-reference.md, append new slots and fields to docs/abi-layout.json
    python tools/abi.py --check    fail if either is stale or anything below does not hold

What holds: the headers compile alone as C99, C11, C++17 and C++20 with all warnings as errors; every entry of the
frozen layout keeps its order, offset and size, and nothing was put between; group bits and the groups of the slots are
the same set; each group has a required slot. Needs a C and a C++ compiler (CC, CXX, or cc and c++).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STANDARDS = [("CC", "cc", "c", "c99"), ("CC", "cc", "c", "c11"), ("CXX", "c++", "c++", "c++17")]
STANDARDS += [("CXX", "c++", "c++", "c++20")]

Layout = dict[str, Any]


class AbiError(Exception):
    """A promise of the ABI that does not hold; the text says which and what to do."""


@dataclass(frozen=True)
class Slot:
    """One function of the driver table."""

    group: str
    need: str
    name: str
    parameters: str  # after self, as written; empty if there are none
    comment: str

    @property
    def signature(self) -> str:
        parameters = f", {self.parameters}" if self.parameters else ""
        return f"tb_status {self.name}(tb_driver *self{parameters})"


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    comment: str
    slots: tuple[Slot, ...]


def _comment_text(text: str) -> str:
    lines = [re.sub(r"^\s*\*\s?", "", line) for line in text.splitlines()]
    return " ".join(" ".join(lines).split())


_TOKENS = re.compile(
    r"/\*(?P<comment>.*?)\*/"
    r"|TB_SLOT0\((?P<group0>\w+),\s*(?P<need0>\w+),\s*(?P<name0>\w+)\)"
    r"|TB_SLOT\((?P<group>\w+),\s*(?P<need>\w+),\s*(?P<name>\w+),\s*"
    r"\((?P<parameters>(?:[^()]|\([^()]*\))*)\),\s*\([^()]*\)\)",
    re.DOTALL,
)


def read_slots(text: str) -> list[Group]:
    """The groups of a slot list in order of appearance; a comment belongs to the slot that follows it."""
    groups: dict[str, list[Slot]] = {}
    titles: dict[str, tuple[str, str]] = {}
    pending: list[str] = []
    section: tuple[str, str] | None = None
    body = text[text.index("*/") + 2 :]
    for token in _TOKENS.finditer(body):
        if token["comment"] is not None:
            comment = _comment_text(token["comment"])
            heading = re.match(r"-{4} (\w+): (.*?) ?-{4,}$", comment)
            if heading:
                section, pending = (heading[1], heading[2]), []
            else:
                pending.append(comment)
            continue
        group = token["group0"] or token["group"]
        if section is None or section[0] != group:
            raise AbiError(
                f"slot {token['name0'] or token['name']} of group {group} stands outside its group's section"
            )
        if group not in groups:
            groups[group] = []
            # All but the last comment before the first slot are about the group.
            titles[group] = (section[1], " ".join(pending[:-1]))
            pending = pending[-1:]
        slot = Slot(
            group,
            token["need0"] or token["need"],
            token["name0"] or token["name"],
            " ".join((token["parameters"] or "").split()),
            " ".join(pending),
        )
        if slot.need not in ("REQUIRED", "OPTIONAL"):
            raise AbiError(f"slot {slot.name}: need is {slot.need}; write REQUIRED or OPTIONAL")
        groups[group].append(slot)
        pending = []
    if len(re.findall(r"^TB_SLOT0?\(", body, re.MULTILINE)) != sum(len(slots) for slots in groups.values()):
        raise AbiError("a line of the slot list was not understood: write TB_SLOT(GROUP, NEED, name, (...), (...))")
    return [Group(name, *titles[name], tuple(slots)) for name, slots in groups.items()]


def check_groups(groups: list[Group], header: str) -> None:
    """Group bits of the header and groups of the slots are one set; bits are dense; names are unique."""
    bits = {name: int(bit) for name, bit in re.findall(r"TB_GROUP_(\w+) = 1 << (\d+)", header)}
    used = [group.name for group in groups]
    if sorted(bits.values()) != list(range(len(bits))):
        raise AbiError(f"the group bits of driver.h are {sorted(bits.values())}; use each bit from 0 on once")
    if set(bits) != set(used):
        raise AbiError(
            f"groups only in driver.h or only in the slot list: {sorted(set(bits) ^ set(used))}; add the other"
        )
    names = [slot.name for group in groups for slot in group.slots]
    if len(set(names)) != len(names):
        raise AbiError(f"slots with the same name: {sorted({n for n in names if names.count(n) > 1})}")
    for group in groups:
        if not any(slot.need == "REQUIRED" for slot in group.slots):
            raise AbiError(f"group {group.name} has no REQUIRED slot, so nothing says when it is offered")


def _compile(include: pathlib.Path, variable: str, default: str, arguments: list[str], source: str) -> None:
    command = [os.environ.get(variable, default), *arguments, f"-I{include}", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode:
        raise AbiError(f"{' '.join(command)} failed:\n{done.stderr}")


def check_compiles(include: pathlib.Path) -> None:
    """The headers, each alone, in all four languages."""
    for header in ("tb/driver.h", "tb/graph.h", "tb/component.h"):
        source = f'#include "{header}"\nint main(void) {{ return 0; }}\n'
        for variable, default, language, standard in STANDARDS:
            arguments = [*WARNINGS, f"-std={standard}", "-x", language, "-fsyntax-only"]
            _compile(include, variable, default, arguments, source)


_STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.DOTALL)


def struct_fields(header: str) -> dict[str, list[str]]:
    """Names of the fields of every struct of a header, in order; those of included slots are not among them."""
    found = {}
    for name, body in _STRUCT.findall(header):
        plain = re.sub(r"/\*.*?\*/|^#.*?$", "", body, flags=re.DOTALL | re.MULTILINE)
        fields = []
        for declaration in plain.split(";"):
            pointer = re.search(r"\(\*(\w+)\)\s*\(", declaration)
            if pointer:
                fields.append(pointer[1])
            else:
                first, *others = declaration.split(",")
                fields += [m[1] for part in (first, *others) if (m := re.search(r"(\w+)\s*(?:\[[^]]*\])?\s*$", part))]
        found[name] = fields
    return found


def measure(include: pathlib.Path) -> Layout:
    """Compiles a program that prints the offset and size of every field and slot, and runs it."""
    header = (include / "tb/driver.h").read_text()
    groups = read_slots((include / "tb/driver_slots.inc").read_text())
    structs = struct_fields(header)
    structs["tb_driver_api"] = [*structs["tb_driver_api"], *(slot.name for group in groups for slot in group.slots)]
    lines = []
    for struct, fields in structs.items():
        for field in fields:
            entry = f'"{struct} {field} %zu %zu\\n", offsetof({struct}, {field}), sizeof((({struct} *)0)->{field})'
            lines.append(f"  printf({entry});")
    body = "\n".join(lines)
    source = f'#include <stdio.h>\n#include "tb/driver.h"\nint main(void) {{\n{body}\n  return 0;\n}}\n'
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "layout")
        _compile(include, "CC", "cc", ["-std=c11", "-x", "c", "-o", program], source)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    layout: Layout = {"abi_major": int(re.findall(r"#define TB_ABI_MAJOR (\d+)", header)[0]), "structs": {}}
    for line in output.splitlines():
        struct, field, offset, size = line.split()
        layout["structs"].setdefault(struct, []).append([field, int(offset), int(size)])
    return layout


def check_frozen(frozen: Layout, measured: Layout) -> None:
    """Every entry of `frozen` stands where it stood; `measured` may have more, at the end."""
    if frozen["abi_major"] != measured["abi_major"]:
        raise AbiError("TB_ABI_MAJOR changed: a new major has a new entry symbol and a layout file of its own")
    for struct, fields in frozen["structs"].items():
        present = measured["structs"].get(struct, [])
        for index, field in enumerate(fields):
            now = present[index] if index < len(present) else None
            if now != field:
                raise AbiError(
                    f"{struct}: entry {index} was {field} (name, offset, size) and is now {now}. The layout is frozen: "
                    "put it back, and add what is new at the end"
                )


def reference(groups: list[Group]) -> str:
    """The reference page of the driver table."""
    required = [slot for slot in groups[0].slots if slot.need == "REQUIRED"]
    total = sum(len(group.slots) for group in groups)
    lines = [
        "# Driver table reference",
        "",
        "<!-- Written by tools/abi.py from shared/include/tb/driver_slots.inc. Edit that file, then run the tool. -->",
        "",
        f"{total} functions in {len(groups)} groups, in frozen order. A driver must have the {len(required)} required "
        f"ones of {groups[0].name}; every other group",
        "is offered whole (its required functions) or not at all. The types and the rules for every function are in",
        "[`tb/driver.h`](../shared/include/tb/driver.h).",
    ]
    for group in groups:
        lines += ["", f"## {group.name}", "", group.title[0].upper() + group.title[1:]]
        if group.comment:
            lines += ["", group.comment]
        for slot in group.slots:
            lines += ["", f"### {slot.name}", "", f"    {slot.signature}", "", slot.need.capitalize() + "."]
            if slot.comment:
                lines[-1] += f" {slot.comment}"
    return "\n".join(lines) + "\n"


def run(root: pathlib.Path, check: bool) -> None:
    """Everything above for a tree; AbiError for the first promise that does not hold."""
    include = root / "shared" / "include"
    groups = read_slots((include / "tb/driver_slots.inc").read_text())
    check_groups(groups, (include / "tb/driver.h").read_text())
    check_compiles(include)
    layout_file, page_file = root / "docs" / "abi-layout.json", root / "docs" / "abi-reference.md"
    measured = measure(include)
    frozen = json.loads(layout_file.read_text()) if layout_file.exists() else None
    if frozen is not None:
        check_frozen(frozen, measured)
    if not check:
        structs = [
            f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(f)}" for f in fields) + "\n  ]"
            for name, fields in measured["structs"].items()
        ]
        head = f'{{\n "abi_major": {measured["abi_major"]},\n "structs": {{\n'
        layout_file.write_text(head + ",\n".join(structs) + "\n }\n}\n")
        page_file.write_text(reference(groups))
        return
    if frozen != measured:
        raise AbiError(f"{layout_file.name} lacks slots or fields that the header has: run python tools/abi.py")
    if not page_file.exists() or page_file.read_text() != reference(groups):
        raise AbiError(f"{page_file.name} is stale: run python tools/abi.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is stale or broken")
    try:
        run(ROOT, parser.parse_args().check)
    except AbiError as error:
        print(f"abi: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
