"""The command tb-device."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import _core, console, discovery, doctor
from .exceptions import Error
from .headers import get_include


def candidate_table(candidates: Sequence[discovery.Candidate]) -> str:
    """One line a candidate; the chosen one has a star."""
    rows = [["", "DRIVER", "FROM", "WHY"]]
    for each in candidates:
        path = f" [{each.path}]" if each.path and each.path != each.name else ""
        rows.append(["*" if each.chosen else "", each.name, each.origin, each.reason + path])
    return console.table(rows)


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


def _show_doctor(driver: str | None, as_json: bool) -> int:
    report = doctor.examine(driver)
    print(json.dumps(report, indent=2) if as_json else doctor.readable(report))
    return 1 if report["problems"] else 0


def _driver(name: str | None) -> _core.Driver:
    return discovery.default_driver() if name is None else discovery.load_driver(name)


def _show_explain(name: str | None, as_json: bool) -> int:
    from . import explain

    report = explain.examine(_driver(name))
    print(json.dumps(report, indent=2) if as_json else explain.readable(report))
    return 0


def _new_driver(name: str, language: str, into: str | None, level: int) -> int:
    from . import new_driver

    written = new_driver.write(name, language, None if into is None else Path(into), level)
    print(new_driver.report(name, written, level))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command's entry; see `console.run`."""
    return console.run(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    """Runs the command; returns its exit code: 0, 1 when it failed or no driver is usable, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="tb-device", description="Device drivers: which there are and what is wrong.")
    parser.add_argument("--includes", action="store_true", help="print the folder of the C headers (cc -I)")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("drivers", help="every candidate, which one won, and why")
    examine = commands.add_parser("doctor", help="a full report; exit code 1 when it found a problem")
    explain = commands.add_parser(
        "explain", help="what PyTorch gets from a driver, and which functions would change it"
    )
    for each in (examine, explain):
        each.add_argument(
            "--driver", metavar="X", help="a name, or a library's path with a slash; default: the one in use"
        )
        each.add_argument("--json", action="store_true", help="for programs")
    create = commands.add_parser(
        "new-driver", help="write the folder of a new driver, which builds and passes its level"
    )
    create.add_argument("name", help="letters, digits and underscores")
    create.add_argument("--language", choices=["c", "c++"], default="c", help="of the driver; default c")
    create.add_argument(
        "--level", type=int, choices=[0, 3], default=0, help="0: memory and copies (the default); 3: with kernels, in C"
    )
    create.add_argument("--into", metavar="FOLDER", help="where the new folder goes; default: here")
    contract = commands.add_parser("contract", help="prove a driver against the device ABI")
    if "contract" in (sys.argv[1:] if arguments is None else arguments):  # its modules load only when it is asked for
        from .contract import command

        command.add_arguments(contract)
    chosen = parser.parse_args(arguments)
    if chosen.includes:
        print(get_include())
        return 0
    try:
        if chosen.command == "drivers":
            return _show_drivers()
        if chosen.command == "doctor":
            return _show_doctor(chosen.driver, chosen.json)
        if chosen.command == "explain":
            return _show_explain(chosen.driver, chosen.json)
        if chosen.command == "new-driver":
            return _new_driver(chosen.name, chosen.language, chosen.into, chosen.level)
        if chosen.command == "contract":
            return command.run(chosen)
    except Error as error:
        print(f"tb-device: {error}", file=sys.stderr)
        return 1
    parser.print_help()
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
