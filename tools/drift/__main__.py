"""`python -m drift record FILE`, `report FOLDER FILE...` and `cut FOLDER FILE...`."""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
from collections.abc import Sequence

from drift import facts as recorded
from drift import overridden, report

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 if a virtual function is neither overridden nor listed."""
    parser = argparse.ArgumentParser(prog="python -m drift", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write the facts of the installed torch")
    record.add_argument("file", type=pathlib.Path)
    compare = commands.add_parser("report", help="compare each version with the next, and check our classes for each")
    shorten = commands.add_parser("cut", help="copy without what is the same in all versions, for a test")
    for command in (compare, shorten):
        command.add_argument("folder", type=pathlib.Path)
        command.add_argument("files", type=pathlib.Path, nargs="+")
    options = parser.parse_args(arguments)

    if options.command == "record":
        recorded.record().write(options.file)
        return 0
    versions = [recorded.load(file) for file in options.files]
    if options.command == "cut":
        for facts in recorded.cut(versions):
            facts.write(options.folder / f"torch-{facts.minor}.json")
        return 0
    return _report(options.folder, versions)


def _report(folder: pathlib.Path, versions: Sequence[recorded.Facts]) -> int:
    ours = overridden.read_tree(ROOT)
    problems = overridden.check(ours, overridden.read_listed(overridden.TABLE), versions)
    folder.mkdir(parents=True, exist_ok=True)
    for before, after in itertools.pairwise(versions):
        changes = report.compare(before, after)
        page = folder / f"{before.minor}-{after.minor}.md"
        page.write_text(report.page(before, after, changes, ours, problems))
        print(report.summary(before, after, changes, ours))
        print(f"The whole report: {page}\n")
    for problem in problems:
        print(problem)
    names = ", ".join(facts.version for facts in versions)
    print(f"Overrides against torch {names}: {len(ours)} classes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
