"""What a build of all packages from nothing costs: python -m benchmarks.compilation.

Each package is compiled with one job and without ccache. Seconds are those of ninja's log. Then each header of PyTorch
or nanobind that our files include is read alone, behind the precompiled header where there is one. What that takes
more than an empty file is what a unit pays for it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from building.packages import ROOT, read_packages

from benchmarks.page import Table, page, write

AIM = 700  # seconds, of all packages
DEAREST = 10
INCLUDE = re.compile(r"^#include <([^>]+/[^>]+)>", re.MULTILINE)  # without those of C++, which have no folder
BUILDS = ROOT / "build" / "bench-build"


@dataclass(frozen=True)
class Build:
    """A package's build folder after a build from nothing: seconds of each file that was compiled or linked."""

    package: str
    folder: pathlib.Path
    seconds: dict[str, float]


@dataclass(frozen=True)
class Header:
    """A header that files of a package include: seconds of reading it, and how many files name it."""

    package: str
    name: str
    seconds: float
    files: int


def compile_package(source: pathlib.Path) -> None:
    """Compiles a package with one job."""
    folder = BUILDS / source.name
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    for command in (["meson", "setup", str(folder), str(source)], ["ninja", "-C", str(folder), "-j1"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def compiled(name: str) -> Build:
    """The last build of a package."""
    return Build(name, BUILDS / name, dict(logged(BUILDS / name / ".ninja_log")))


def logged(log: pathlib.Path) -> Iterator[tuple[str, float]]:
    """Each output in ninja's log and its seconds."""
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        yield output, (int(end) - int(start)) / 1000


def peak_memory() -> float:
    """GiB of the largest process so far among those that this one has started, and theirs."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def included(source: pathlib.Path) -> Counter[str]:
    """How many of a package's C++ files include each header by <>."""
    files = [path for path in source.rglob("*") if path.suffix in {".cpp", ".h"} and "tests" not in path.parts]
    return Counter(name for path in files for name in set(INCLUDE.findall(path.read_text())))


def read_command(build: Build) -> list[str]:
    """The command that compiles one of a package's units, up to the name of its file, without code."""
    units = json.loads((build.folder / "compile_commands.json").read_text())
    command = shlex.split(next(unit["command"] for unit in units if "_core.abi3.so.p/" in unit["output"]))
    command = command[1:] if command[0].endswith("ccache") else command
    command = command[: command.index("-c")]
    for flag, arguments in {"-o": 2, "-MD": 1, "-MQ": 2, "-MF": 2}.items():
        at = command.index(flag)
        del command[at : at + arguments]
    return [*command, "-fsyntax-only"]


def read_seconds(build: Build, command: list[str], name: str | None, rounds: int) -> float:
    """The processor's median seconds of a file that includes a header, or nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(f"#include <{name}>\n" if name else "\n")
        file.flush()
        taken = []
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*command, file.name], cwd=build.folder, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def headers(build: Build, source: pathlib.Path, rounds: int) -> list[Header]:
    """The headers of a package. Those of single operators (ATen/ops) are left out: they declare a few functions."""
    command = read_command(build)
    nothing = read_seconds(build, command, None, rounds)
    counts = {name: count for name, count in included(source).items() if "ATen/ops/" not in name}
    return [
        Header(build.package, name, read_seconds(build, command, name, rounds) - nothing, count)
        for name, count in counts.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="by default all")
    parser.add_argument("--built", action="store_true", help="take what the last run has compiled; no largest compiler")
    parser.add_argument("--rounds", type=int, default=1, help="readings of each header")
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    packages = read_packages(ROOT)
    builds = []
    for name in options.packages or packages:
        if not options.built:
            compile_package(packages[name].directory)
        builds.append(compiled(name))
        print(f"{name}: {sum(builds[-1].seconds.values()):.0f} s", flush=True)
    memory = peak_memory()
    total = sum(sum(build.seconds.values()) for build in builds)
    files = sorted(((s, b.package, f) for b in builds for f, s in b.seconds.items()), reverse=True)[:DEAREST]
    read = [one for build in builds for one in headers(build, packages[build.package].directory, options.rounds)]
    dearest = sorted(read, key=lambda header: header.seconds, reverse=True)[:DEAREST]
    tables = [
        Table(
            ["package", "steps", "seconds"],
            [
                *([b.package, len(b.seconds), f"{sum(b.seconds.values()):.0f}"] for b in builds),
                ["all", "", f"{total:.0f}"],
            ],
            "Compilation from nothing with one job.",
        ),
        Table(
            ["file", "package", "seconds"],
            [[f"`{pathlib.PurePath(name).name}`", package, f"{seconds:.1f}"] for seconds, package, name in files],
            "The files that take longest. `unit_NAME` is a group of files that are compiled as one.",
        ),
        Table(
            ["header", "package", "seconds", "files that include it"],
            [[f"`<{h.name}>`", h.package, f"{h.seconds:.1f}", h.files] for h in dearest],
            "The headers that take longest to read, behind the precompiled header where the package has one.",
        ),
    ]
    notes = [] if options.built else [f"Largest compiler: {memory:.1f} GiB."]
    if not options.packages:
        notes.insert(0, f"Aim: at most {AIM} s for all packages: {'met' if total <= AIM else 'missed'}.")
    text = page("Compilation", "nox -s bench-build", tables, notes)
    if options.page:
        write(options.page, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
