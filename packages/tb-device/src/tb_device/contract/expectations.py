"""The vendor's expectations file, tb-contract.toml: what a driver does not do yet or never will, with reasons.

image = "fill.bin"                 # the kernels of tb/contract_kernels.h, relative to this file

[unsupported]                      # not run, counted as not offered
"PEE-04" = "the bus has no peer copies"

[expected_failure]                 # run; passing fails the run, so that the line goes when it is repaired
"EVT-08" = "issue 12: the clock wraps"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .target import all_cases


@dataclass(frozen=True)
class Expectations:
    """Reasons by the id of the case. image: a path, or "" when the file names none."""

    unsupported: dict[str, str] = field(default_factory=dict)
    expected_failure: dict[str, str] = field(default_factory=dict)
    image: str = ""


def _reasons(table: object, name: str, file: Path) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(reason, str) and reason.strip() for reason in table.values()):
        raise ValueError(f'{file}: [{name}] wants lines such as "MEM-04" = "the reason", each with a reason')
    return table


def read(file: Path) -> Expectations:
    """Reads the file. Raises ValueError for what it cannot mean (an id that there is not, no reason), OSError."""
    try:
        data = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file} is no TOML: {error}") from error
    unknown = set(data) - {"unsupported", "expected_failure", "image"}
    if unknown:
        raise ValueError(f"{file} has {', '.join(sorted(unknown))}; there are unsupported, expected_failure and image")
    tables = {name: _reasons(data.get(name, {}), name, file) for name in ("unsupported", "expected_failure")}
    known = {case.id for case in all_cases()}
    for name, reasons in tables.items():
        for strange in sorted(set(reasons) - known):
            raise ValueError(f"{file}: [{name}] names {strange}, and no case has this id. Remove or correct the line")
    for twice in sorted(set(tables["unsupported"]) & set(tables["expected_failure"])):
        raise ValueError(f"{file}: {twice} is in both tables. Keep one line")
    image = data.get("image", "")
    if not isinstance(image, str):
        raise ValueError(f"{file}: image wants a file name as text")
    return Expectations(tables["unsupported"], tables["expected_failure"], str(file.parent / image) if image else "")
