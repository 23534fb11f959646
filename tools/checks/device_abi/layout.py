"""The frozen layout: slots, fields, offsets, sizes, types and constants, measured with a compiler and compared."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import tempfile
from typing import Any

from checks.device_abi import AbiError
from checks.device_abi.slots import Group

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STANDARDS = [("CC", "cc", "c", "c99"), ("CC", "cc", "c", "c11"), ("CXX", "c++", "c++", "c++17")]
STANDARDS += [("CXX", "c++", "c++", "c++20")]
HEADERS = ("tb/driver.h", "tb/graph.h", "tb/kernels.h", "tb/component.h", "tb/operator_backend.h")
# The frozen macros, in addition to the enumerators. The version numbers may grow, so they are not frozen.
MACROS = [
    *("TB_CLOSURE_ALIGNMENT", "TB_DRIVER_ENTRY", "TB_EXPORT_CAPSULE", "TB_EXPORT_ATTRIBUTE"),
    *("TB_GRAPH_EXTENSION", "TB_KERNELS_EXTENSION", "TB_OPERATOR_BACKEND_CAPSULE"),
]

Layout = dict[str, Any]


def _compile(include: pathlib.Path, variable: str, default: str, arguments: list[str], source: str) -> None:
    command = [os.environ.get(variable, default), *arguments, f"-I{include}", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode:
        raise AbiError(f"{' '.join(command)} failed:\n{done.stderr}")


def check_compiles(include: pathlib.Path) -> None:
    """Compiles each header alone in all four languages."""
    for header in HEADERS:
        source = f'#include "{header}"\nint main(void) {{ return 0; }}\n'
        for variable, default, language, standard in STANDARDS:
            arguments = [*WARNINGS, f"-std={standard}", "-x", language, "-fsyntax-only"]
            _compile(include, variable, default, arguments, source)


_STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.DOTALL)


def _plain(text: str) -> str:
    """The text without comments and preprocessor lines."""
    return re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def struct_fields(header: str) -> dict[str, list[tuple[str, str]]]:
    """Name and type of the fields of every struct of a header, in order, without the slots that a struct includes."""
    found = {}
    for name, body in _STRUCT.findall(header):
        fields: list[tuple[str, str]] = []
        for declaration in _plain(body).split(";"):
            text = " ".join(declaration.split())
            pointer = re.search(r"\(\*(\w+)\)\s*\(", text)
            if pointer:
                fields.append((pointer[1], text.replace(f"(*{pointer[1]})", "(*)", 1)))
                continue
            kind = ""
            for place, part in enumerate(text.split(",")):
                declarator = re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", part)
                if declarator is None:
                    continue
                if place == 0:
                    kind = part[: declarator.start()].strip()
                fields.append((declarator[1], kind + (declarator[2] or "")))
        found[name] = fields
    return found


def enumerators(header: str) -> list[str]:
    """The names of all enumerators of a header, in order."""
    bodies = re.findall(r"\benum \{(.*?)\};", _plain(header), re.DOTALL)
    return [name for body in bodies for name in re.findall(r"(\w+) = ", body)]


def measure(include: pathlib.Path, groups: list[Group], graph: list[Group]) -> Layout:
    """Compiles a program that prints the offset and size of every field and slot and each constant, and runs it."""
    texts = {name: (include / name).read_text() for name in HEADERS}
    structs = {name: fields for text in texts.values() for name, fields in struct_fields(text).items()}
    for table, listed in (("tb_driver_api", groups), ("tb_graph_api", graph)):
        in_order = sorted((slot for group in listed for slot in group.slots), key=lambda slot: slot.place)
        structs[table] += [(slot.name, f"{slot.group} {slot.need} ({slot.types})") for slot in in_order]
    constants = [name for text in texts.values() for name in enumerators(text)]
    lines = [f'  printf("{name} %lld\\n", (long long){name});' for name in constants]
    for struct, fields in structs.items():
        for field, _ in fields:
            entry = f'"{struct} {field} %zu %zu\\n", offsetof({struct}, {field}), sizeof((({struct} *)0)->{field})'
            lines.append(f"  printf({entry});")
    body = "\n".join(lines)
    includes = "".join(f'#include "{name}"\n' for name in HEADERS)
    source = f"#include <stdio.h>\n{includes}int main(void) {{\n{body}\n  return 0;\n}}\n"
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "layout")
        _compile(include, "CC", "cc", ["-std=c11", "-x", "c", "-o", program], source)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    defined = {name: value for text in texts.values() for name, value in re.findall(r"#define (\w+) (\S+)", text)}
    layout: Layout = {"abi_major": int(defined["TB_ABI_MAJOR"]), "constants": {}, "structs": {}}
    for line in output.splitlines():
        first, *others = line.split()
        if len(others) == 1:
            layout["constants"][first] = int(others[0])
            continue
        field, offset, size = others
        layout["structs"].setdefault(first, []).append([field, int(offset), int(size), dict(structs[first])[field]])
    layout["constants"].update({name: defined[name].strip('"') for name in MACROS})
    return layout


def check_frozen(frozen: Layout, measured: Layout) -> None:
    """Checks that every entry of `frozen` is unchanged in `measured`, which may have more entries at the end.

    A field named `reserved`, which everyone sets to 0, may get a name.
    """
    if frozen["abi_major"] != measured["abi_major"]:
        raise AbiError("TB_ABI_MAJOR changed: a new major has a new entry symbol and a layout file of its own")
    for name, value in frozen["constants"].items():
        if measured["constants"].get(name) != value:
            raise AbiError(
                f"{name} was {value} and is now {measured['constants'].get(name)}. Constants are frozen: put it back, "
                "and give what is new a name and a value of its own"
            )
    for struct, fields in frozen["structs"].items():
        present = measured["structs"].get(struct, [])
        for index, field in enumerate(fields):
            now = present[index] if index < len(present) else None
            named = field[0] == "reserved" and now is not None and now[1:] == field[1:]
            if now != field and not named:
                raise AbiError(
                    f"{struct}: entry {index} was {field} (name, offset, size, type) and is now {now}. The layout is "
                    "frozen: put it back, and add what is new at the end"
                )
    table = frozen["structs"]["tb_driver_api"]
    groups = {kind.split()[0] for *_, kind in table if " REQUIRED (" in kind}
    for name, *_, kind in measured["structs"]["tb_driver_api"][len(table) :]:
        group, need, *_ = kind.split()
        if need == "REQUIRED" and group in groups:
            raise AbiError(
                f"slot {name} is REQUIRED in group {group}, which drivers offer without it already: make it OPTIONAL, "
                "or give it a group of its own"
            )


def written(layout: Layout) -> str:
    """The text of the layout's file. Each entry has its own line, so that a diff shows what changed."""

    def block(entries: list[str], opening: str, closing: str) -> str:
        return f"{opening}\n" + ",\n".join(f"   {entry}" for entry in entries) + f"\n  {closing}"

    structs = [
        f"  {json.dumps(name)}: {block([json.dumps(field) for field in fields], '[', ']')}"
        for name, fields in layout["structs"].items()
    ]
    constants = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in layout["constants"].items()]
    return (
        f'{{\n "abi_major": {layout["abi_major"]},\n'
        + ' "constants": {\n'
        + ",\n".join(constants)
        + "\n },\n"
        + ' "structs": {\n'
        + ",\n".join(structs)
        + "\n }\n}\n"
    )
