"""Checks the rooms of each package: includes between its folders go one way only.

`python tools/checks/rooms.py [PACKAGE...]` reads rooms.toml beside it, follows `#include "..."`, prints the graph of
the rooms and fails on an include of a higher room, a cycle of headers or of rooms, a file outside of all rooms, and a
folder with more than 25 source files side by side. A source file may include headers of its room that include its own
header: a class may be implemented with the classes that are built on it.
"""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("rooms.toml")
HEADERS = {".h", ".hpp", ".inc"}
SOURCES = {".c", ".cc", ".cpp"} | HEADERS
MOST_FILES = 25
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclass
class Package:
    """An entry of rooms.toml."""

    name: str
    root: pathlib.Path
    levels: dict[str, int]
    """Of each room: 0 is the lowest."""
    roots: list[pathlib.Path] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    alone: set[str] = field(default_factory=set)
    large: dict[str, str] = field(default_factory=dict)

    def room_of(self, name: str) -> str | None:
        """The room of a file, by its name relative to the root; the deepest one counts."""
        for folder in map(str, pathlib.PurePosixPath(name).parents):
            if folder in self.levels:
                return folder
        return None


def read(table: Mapping[str, Any], tree: pathlib.Path) -> list[Package]:
    """The packages of a rooms.toml whose paths are relative to `tree`.

    Raises:
        ValueError: an entry has an unknown key, a room twice, or a folder that does not exist.
    """
    return [_package(name, entry, tree) for name, entry in table.items()]


def _package(name: str, entry: Mapping[str, Any], tree: pathlib.Path) -> Package:
    unknown = set(entry) - {"root", "order", "include", "ignore", "alone", "large"}
    if unknown:
        raise ValueError(f"rooms.toml: {name} has the unknown key {min(unknown)!r}")
    root = tree / entry["root"]
    levels: dict[str, int] = {}
    for level, group in enumerate(entry["order"]):
        for room in [group] if isinstance(group, str) else group:
            if room in levels:
                raise ValueError(f"rooms.toml: {name} lists the room {room!r} twice")
            if not (root / room).is_dir():
                raise ValueError(f"rooms.toml: {name} has no folder {room!r}: take it out of `order`")
            levels[room] = level
    return Package(
        name=name,
        root=root,
        levels=levels,
        roots=[root, *(tree / folder for folder in entry.get("include", []))],
        ignored=list(entry.get("ignore", [])),
        alone=set(entry.get("alone", [])),
        large=dict(entry.get("large", {})),
    )


@dataclass
class Report:
    """What a package's sources include."""

    headers: dict[str, set[str]]
    """Of each header: the headers that it includes."""
    rooms: dict[str, set[str]]
    problems: list[str]


def check(package: Package) -> Report:
    """Follows the includes of every source file of a package."""
    names = _sources(package)
    problems = [f"{name} is in no room" for name in names if package.room_of(name) is None]
    names = [name for name in names if package.room_of(name) is not None]
    known = set(names)
    headers: dict[str, set[str]] = {}
    rooms: dict[str, set[str]] = {room: set() for room in package.levels}
    for name in names:
        room = package.room_of(name)
        assert room is not None
        for included in _includes(package, name, known):
            other = package.room_of(included)
            assert other is not None
            if pathlib.PurePosixPath(name).suffix in HEADERS:
                headers.setdefault(name, set()).add(included)
            if other == room:
                continue
            rooms[room].add(other)
            if package.levels[other] > package.levels[room]:
                problems.append(f"{name} includes {included}: {room} is below {other}")
            elif room in package.alone:
                problems.append(f"{name} includes {included}: {room} stands alone")
    problems += [f"these headers include each other: {' -> '.join(cycle)}" for cycle in cycles(headers)]
    problems += [f"these rooms include each other: {' -> '.join(cycle)}" for cycle in cycles(rooms)]
    problems += _large_folders(package, names)
    return Report(headers, rooms, problems)


def _sources(package: Package) -> list[str]:
    names = (path.relative_to(package.root).as_posix() for path in package.root.rglob("*") if path.suffix in SOURCES)
    ignored = tuple(f"{folder}/" for folder in package.ignored)
    return sorted(name for name in names if not name.startswith(ignored))


def _includes(package: Package, name: str, known: set[str]) -> Iterable[str]:
    """The package's own files that a file includes, by their names relative to the root."""
    path = package.root / name
    for included in _INCLUDE.findall(path.read_text(encoding="utf-8")):
        for folder in [path.parent, *package.roots]:
            target = (folder / included).resolve()
            if target.is_relative_to(package.root.resolve()):
                relative = target.relative_to(package.root.resolve()).as_posix()
                if relative in known:
                    yield relative
                    break


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """One cycle of each set of nodes that reach each other, with its first node again at the end."""
    found = []
    done: set[str] = set()
    for start in sorted(graph):
        if start in done:
            continue
        path = _path_back(graph, start)
        if path:
            found.append(path)
            done |= {node for node in graph if _reaches(graph, start, node) and _reaches(graph, node, start)}
    return found


def _path_back(graph: Mapping[str, set[str]], start: str) -> list[str]:
    """The shortest path from a node to itself; empty if there is none."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        longer = []
        for way in ways:
            for following in sorted(graph.get(way[-1], ())):
                if following == start:
                    return [*way, start]
                if following not in seen:
                    seen.add(following)
                    longer.append([*way, following])
        ways = longer
    return []


def _reaches(graph: Mapping[str, set[str]], start: str, goal: str) -> bool:
    seen, pending = {start}, [start]
    while pending:
        for following in graph.get(pending.pop(), ()):
            if following not in seen:
                seen.add(following)
                pending.append(following)
    return goal in seen


def _large_folders(package: Package, names: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    for name in names:
        folder = str(pathlib.PurePosixPath(name).parent)
        counts[folder] = counts.get(folder, 0) + 1
    problems = [
        f"{folder} has {count} files side by side, more than {MOST_FILES}: divide it, or give a reason in rooms.toml"
        for folder, count in counts.items()
        if count > MOST_FILES and not package.large.get(folder)
    ]
    unused = [folder for folder in package.large if counts.get(folder, 0) <= MOST_FILES]
    return problems + [f"rooms.toml: {folder} needs no exception" for folder in unused]


def graph_text(package: Package, report: Report) -> str:
    """A line for each room, the lowest first: its number of files, and the rooms that it includes."""
    names = _sources(package)
    lines = [f"{package.name}:"]
    width = max(map(len, package.levels))
    for room, level in package.levels.items():
        count = sum(package.room_of(name) == room for name in names)
        below = sorted(report.rooms[room], key=lambda other: (package.levels[other], other))
        lines.append(f"  {level:>2} {room:<{width}} {count:>3} files  <- {', '.join(below) or 'no other room'}")
    return "\n".join(lines)


def main(arguments: list[str], tree: pathlib.Path = ROOT, table: pathlib.Path = TABLE) -> int:
    """Prints the graph of the chosen packages, all by default; returns 1 if there is a problem."""
    entries = tomllib.loads(table.read_text(encoding="utf-8"))
    missing = set(arguments) - set(entries)
    if missing:
        print(f"rooms.toml has no entry {min(missing)!r}", file=sys.stderr)
        return 2
    try:
        packages = read({name: entries[name] for name in arguments or entries}, tree)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    problems = []
    for package in packages:
        report = check(package)
        print(graph_text(package, report))
        problems += [f"{package.name}: {problem}" for problem in report.problems]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
