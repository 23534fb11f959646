"""The command tb-device."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from . import discovery, doctor
from .exceptions import Error
from .headers import get_include


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns; the last one keeps its own width, further lines of it stay below it."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    indent = " " * (sum(widths) + 2 * len(widths))
    lines = []
    for *cells, last in rows:
        head = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        lines.append((head + last.replace("\n", "\n" + indent)).rstrip())
    return "\n".join(lines)


def candidate_table(candidates: Sequence[discovery.Candidate]) -> str:
    """One line a candidate; the chosen one has a star."""
    rows = [["", "DRIVER", "FROM", "WHY"]]
    for each in candidates:
        path = f" [{each.path}]" if each.path and each.path != each.name else ""
        rows.append(["*" if each.chosen else "", each.name, each.origin, each.reason + path])
    return _table(rows)


def _show_drivers() -> int:
    failed = False
    try:
        discovery.default_driver()
    except Error:
        failed = True  # the table says why, candidate by candidate
    print(candidate_table(discovery.drivers()))
    if failed:
        print("\nNo driver is usable.", file=sys.stderr)
    return 1 if failed else 0


def _show_doctor(as_json: bool) -> int:
    report = doctor.examine()
    print(json.dumps(report, indent=2) if as_json else doctor.readable(report))
    return 0 if report["usable"] else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 1 when no driver is usable, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="tb-device", description="Device drivers: which there are and what is wrong.")
    parser.add_argument("--includes", action="store_true", help="print the folder of the C headers (cc -I)")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("drivers", help="every candidate, which one won, and why")
    examine = commands.add_parser("doctor", help="a full report; exit code 1 when no driver is usable")
    examine.add_argument("--json", action="store_true", help="for programs")
    contract = commands.add_parser("contract", help="prove a driver against the device ABI")
    if "contract" in (sys.argv[1:] if arguments is None else arguments):  # its modules load only when it is asked for
        from .contract import command

        command.add_arguments(contract)
    chosen = parser.parse_args(arguments)
    if chosen.includes:
        print(get_include())
        return 0
    if chosen.command == "drivers":
        return _show_drivers()
    if chosen.command == "doctor":
        return _show_doctor(chosen.json)
    if chosen.command == "contract":
        return command.run(chosen)
    parser.print_help()
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
