"""Searches every tracked file for words that the project does not use: the table at the end of docs/glossary.md.

`python tools/checks/words.py [PATH...]` prints each place and fails if there is one. tools/checks/words_allowed.txt has
the exceptions, one a line: a path (a folder covers what is in it), the word, and after `#` the reason.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks.tree import listed  # noqa: E402

GLOSSARY = ROOT / "docs" / "glossary.md"
ALLOWED = pathlib.Path(__file__).with_name("words_allowed.txt")
TEXT = {".py", ".pyi", ".c", ".cpp", ".cu", ".cuh", ".h", ".inc", ".in", ".md", ".toml", ".yaml", ".build", ".txt"}


def replaced_words(page: str) -> list[str]:
    """The first column of the table under "Words not in use"."""
    rows = page.split("## Words not in use")[1].splitlines()
    cells = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    return [word.strip() for cell in cells[1:] if cell.strip("- ") for word in cell.split(",")]


def pattern(word: str) -> re.Pattern[str]:
    """Matches the word in prose and as a part of a name: `fast_path`, `FastPath` and `fast path` are one."""
    parts = [re.escape(part).replace(r"\*", r"[a-z]*") for part in re.split(r"[ -]", word)]
    prose = r"[\s_-]+".join(parts)
    camel = "".join(part[0].upper() + part[1:] for part in parts)
    return re.compile(rf"(?<![A-Za-z])(?i:{prose})(?![A-Za-z])|(?<![A-Z]){camel}(?![a-z])")


def allowed(text: str) -> list[tuple[str, str]]:
    entries = [line.split("#")[0].split(maxsplit=1) for line in text.splitlines() if line.split("#")[0].strip()]
    for entry in entries:
        if len(entry) != 2:
            sys.exit(f"{ALLOWED.name}: '{' '.join(entry)}' is not a path and a word")
    return [(path, word.strip()) for path, word in entries]


# Names of other libraries, such as nanobind's nb::steal, are not ours to choose.
FOREIGN_NAME = re.compile(r"\b(?:at|c10|nb|std|torch)::\w+")


def found(text: str, words: dict[str, re.Pattern[str]]) -> list[tuple[int, str]]:
    """(line number, word) of every place."""
    own = FOREIGN_NAME.sub("", text)
    lower = own.lower()
    # Most files have no part of most words, and looking for a part is much quicker than the expression.
    possible = {w: expression for w, expression in words.items() if all(p in lower for p in re.split(r"[ *-]+", w))}
    return [
        (number, word)
        for number, line in enumerate(own.splitlines(), 1)
        for word, expression in possible.items()
        if expression.search(line)
    ]


def texts(arguments: list[str]) -> list[str]:
    return [n for n in listed(ROOT, *arguments, new=True) if (ROOT / n).is_file() and (ROOT / n).suffix in TEXT]


def main(arguments: list[str]) -> int:
    words = {word: pattern(word) for word in replaced_words(GLOSSARY.read_text(encoding="utf-8"))}
    exceptions = allowed(ALLOWED.read_text(encoding="utf-8"))
    used: set[tuple[str, str]] = set()
    places = []
    for name in texts(arguments):
        if ROOT / name in (GLOSSARY, ALLOWED):
            continue
        for number, word in found((ROOT / name).read_text(encoding="utf-8"), words):
            matching = [(path, w) for path, w in exceptions if w == word and f"{name}/".startswith(f"{path}/")]
            used.update(matching)
            if not matching:
                places.append(f"{name}:{number}: '{word}'")
    print("\n".join(places), end="\n" if places else "")
    unused = [] if arguments else sorted(set(exceptions) - used)
    for path, word in unused:
        print(f"{ALLOWED.name}: nothing in {path} says '{word}'; remove the line")
    print(f"{len(words)} words, {len(places)} places, {len(used)} exceptions")
    return 1 if places or unused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
