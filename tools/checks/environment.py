"""Checks that docs/environment.md lists exactly the environment variables that product code reads.

`python tools/checks/environment.py` fails on a variable that code reads and the page lacks, and on one that the page
has and no code reads. The page names a variable in the first column of a table; tables under "Read by other software"
are not checked. A driver's option KEY is the variable TB_<DRIVER>_<KEY>.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/environment.md"
UNCHECKED = "## Read by other software"
SOURCES = ["packages/*/src", "packages/*/include", "packages/tb-device/drivers", "packages/tb-device/layers"]
SOURCES += ["packages/tb-device/contract", "shared/include"]
TEXT = {".py", ".c", ".cpp", ".h", ".inc", ".in"}
NOT_PRODUCT = {"tests", "_testing", "new_driver"}  # new_driver: the template of a vendor's driver

NAME = r"[A-Z][A-Z0-9_]*"
LITERAL = re.compile(rf'[\'"]({NAME})[\'"]')
CALLS = r"(?:secure_getenv|getenv|environ\.get|environ\.pop|environ\.setdefault)"
READ = re.compile(rf"\b{CALLS}\(\s*([^),]*)|environ\[([^]]+)\]")
TEMPORARY = re.compile(r"\btemp_directory_path\(|\btempfile\.(?:mk|Temp|Named)")
OPTION = re.compile(r'\b(?:option|text|read)\(\s*(?:host_?\s*,\s*)?"([a-z][a-z0-9_]*)"')
LOOK_BACK = 3  # lines above a read that may have the list of names: `for (name : {"A", "B"}) getenv(name)`


class Unresolved(Exception):
    """A read whose variable cannot be found in the text."""


def names_read(argument: str, lines: list[str], number: int) -> list[str]:
    """The variables that one call reads. It names them itself, as a constant of the file, or in a list right above."""
    if "option_variable" in argument:
        return []  # options of drivers, which reads_of() finds where drivers read them
    literal = LITERAL.fullmatch(argument.strip())
    if literal:
        return [literal.group(1)]
    constant = re.escape(argument.strip())
    for line in lines:
        given = re.match(rf"\s*(?:[a-z*:_ ]+[ *])?{constant}\s*=\s*(.*)", line)
        if given and (found := LITERAL.match(given.group(1))):
            return [found.group(1)]
    above = [name for line in lines[max(0, number - LOOK_BACK) : number + 1] for name in LITERAL.findall(line)]
    if not above:
        raise Unresolved(f"cannot tell which variable '{argument.strip()}' is: name it where it is read")
    return above


def driver_of(path: pathlib.PurePath) -> str:
    """The driver whose options a source reads; '' if the source belongs to no driver."""
    if "drivers" in path.parts:
        name = path.parts[path.parts.index("drivers") + 1]
        return "" if name == "common" else name
    if "tb-opencl" in path.parts:
        return "opencl"
    return "replay" if path.name.startswith("replay") and "layers" in path.parts else ""


def reads_of(path: pathlib.PurePath, text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, variable) of every read in a source."""
    lines = text.splitlines()
    driver = driver_of(path)
    for number, line in enumerate(lines):
        code = line.split("//")[0]
        for match in READ.finditer(code):
            try:
                for name in names_read(match.group(1) or match.group(2), lines, number):
                    yield number + 1, name
            except Unresolved as error:
                raise Unresolved(f"{path}:{number + 1}: {error}") from None
        if TEMPORARY.search(code):
            yield number + 1, "TMPDIR"
        for key in OPTION.findall(code) if driver else []:
            yield number + 1, f"TB_{driver}_{key}".upper()


def read_by_code(root: pathlib.Path) -> dict[str, str]:
    """Each variable that product code reads, with the place of the first read."""
    files = (file for pattern in SOURCES for folder in root.glob(pattern) for file in folder.rglob("*"))
    out: dict[str, str] = {}
    for file in sorted(set(files)):
        path = file.relative_to(root)
        if file.suffix not in TEXT or not file.is_file() or NOT_PRODUCT.intersection(path.parts):
            continue
        for line, name in reads_of(path, file.read_text(encoding="utf-8")):
            out.setdefault(name, f"{path}:{line}")
    return out


def named_by_page(page: str) -> set[str]:
    """The variables in the first columns of the page's tables that are checked."""
    rows = [line.split("|")[1] for line in page.split(UNCHECKED)[0].splitlines() if line.startswith("| ")]
    return {name for cell in rows for name in re.findall(rf"`({NAME})[^`]*`", cell)}


def check(root: pathlib.Path) -> list[str]:
    try:
        read = read_by_code(root)
    except Unresolved as error:
        return [str(error)]
    named = named_by_page((root / PAGE).read_text(encoding="utf-8"))
    missing = [f"{read[name]}: {name} is read here and {PAGE} lacks it" for name in sorted(read.keys() - named)]
    return missing + [f"{PAGE}: no product code reads {name}; remove its row" for name in sorted(named - read.keys())]


def main() -> int:
    problems = check(ROOT)
    print("\n".join(problems) or f"{PAGE} has every variable that is read")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
