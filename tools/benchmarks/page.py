"""A page of docs/results: what was measured, by which command, on which machine, and when."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

PACKAGES = ("torch", "numpy")
MEMORY = pathlib.Path("/proc/meminfo")
PROCESSORS = pathlib.Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Table:
    """A table as it appears on the page. `text`: what the reader has to know before the table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    text: str = ""

    def lines(self) -> list[str]:
        listed = ["| " + " | ".join(map(_cell, row)) + " |" for row in (self.columns, *self.rows)]
        return [*([self.text, ""] if self.text else []), listed[0], "| --- " * len(self.columns) + "|", *listed[1:], ""]


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").strip()


def _first(file: pathlib.Path, key: str) -> str:
    """The value of the first line `key : value` of a file of /proc; '' if there is none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def machine() -> str:
    """Processors, memory, system and versions, in one line."""
    memory = _first(MEMORY, "MemTotal").split()
    facts = [f"{len(os.sched_getaffinity(0))} x {_first(PROCESSORS, 'model name') or platform.machine()}"]
    facts += [f"{int(memory[0]) / (1 << 20):.0f} GiB"] if memory else []
    facts += [platform.system(), f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            facts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(facts)


def page(title: str, command: str, tables: Sequence[Table], notes: Sequence[str] = ()) -> str:
    """The Markdown of a page. `notes`: a list at the end, such as the aims that were met."""
    lines = [f"# {title}", "", f"`{command}`, {datetime.date.today().isoformat()}; {machine()}.", ""]
    for table in tables:
        lines += table.lines()
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
