"""Which package calls which function of a table, found in the sources by the names of the tables' variables."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator

SUFFIXES = {".c", ".cpp", ".h", ".cuh", ".cu"}
# Folders that do not count: implementations of tables, and the contract kit, which calls every function.
OUTSIDE = {"tests", "adapter_tests", "contract", "layers", "drivers", "shared", "new_driver"}

# Code in shared/component is compiled into each component.
EVERY = "every component"

Callers = dict[tuple[str, str], list[str]]


def _files(package: pathlib.Path) -> Iterator[pathlib.Path]:
    for path in sorted(package.rglob("*")):
        if path.suffix in SUFFIXES and not OUTSIDE & set(path.relative_to(package).parts[:-1]):
            yield path


def _code(path: pathlib.Path) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def _variables(code: str, table: str) -> set[str]:
    """The names of variables and members of the type `table`. A member's trailing underscore is part of its name."""
    return set(re.findall(rf"\b{table}\b\s*(?:const\s*)?[&*]?\s*(\w+)\s*[{{;=,)]", code))


def _called(code: str, variables: Iterable[str]) -> set[str]:
    """The members that are read through one of these variables. An assignment fills a table and is not a call.

    Because of the lookahead, `driver.api->close` counts for `driver` and for `api`.
    """
    names = "|".join(sorted(variables))
    return set(re.findall(rf"\b(?:{names})(?=(?:->|\.)(\w+)\b(?!\s*=[^=]))", code)) if names else set()


def find_callers(root: pathlib.Path, tables: dict[str, str]) -> Callers:
    """The packages that call each (table, function), sorted.

    tables: type name -> the package that provides the table, which is left out.
    """
    shared = "".join(
        _code(path) for path in sorted((root / "shared" / "component").glob("*")) if path.suffix in SUFFIXES
    )
    found: dict[tuple[str, str], set[str]] = {}
    for package in [*sorted(root.glob("packages/*")), root / "shared" / "component"]:
        code = "\n".join(_code(path) for path in _files(package))
        for table, owner in tables.items():
            if package.name == owner:
                continue
            variables = _variables(code, table) | _variables(shared, table)
            if table in ("tb_driver_api", "tb_graph_api"):
                variables |= {"api", "driver", "table"}  # members of structs that hold a table and its `self`
            for name in _called(code, variables):
                found.setdefault((table, name), set()).add(package.name if package.name != "component" else EVERY)
    return {key: sorted(packages) for key, packages in found.items()}
