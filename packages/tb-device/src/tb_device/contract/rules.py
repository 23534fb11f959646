"""The sentences of the ABI by their ids, read from the headers' comments (which are the specification).

Standard library only and without relative imports: tools/checks/rules.py loads this file too.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

HEADERS = ("driver.h", "driver_slots.inc", "graph_slots.inc")

_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_GENERAL = re.compile(r"^ {2}([ETV]\d+) {2}(.*(?:\n {4,}\S.*)*)", re.MULTILINE)
_ID = re.compile(r"\b([a-z][a-z0-9_]*\.(?:\d+|absent))\s")


def _plain(comment: str) -> str:
    return "\n".join(re.sub(r"^ \* ?", "", line) for line in comment.splitlines())


def read(folder: Path) -> dict[str, str]:
    """Sentences by id from the folder that holds driver.h. Raises ValueError for an id that stands twice."""
    rules: dict[str, str] = {}

    def add(name: str, sentence: str) -> None:
        if name in rules:
            raise ValueError(f"rule {name} stands twice in {folder}")
        rules[name] = " ".join(sentence.split()).rstrip("-").rstrip()

    general, *_ = _COMMENT.finditer((folder / "driver.h").read_text())
    for found in _GENERAL.finditer(_plain(general[1])):
        add(found[1], found[2])
    for header in HEADERS[1:]:
        comments = [_plain(found[1]) for found in _COMMENT.finditer((folder / header).read_text())][1:]
        for comment in comments:
            ids = list(_ID.finditer(comment))
            for found, later in itertools.zip_longest(ids, ids[1:]):
                add(found[1], comment[found.end() : later.start() if later else len(comment)])
    return rules
