"""The sidebar: sections of navigation.toml as hidden toctrees of the start page."""

from __future__ import annotations

import fnmatch
import pathlib
import tomllib
from collections.abc import Iterable

from docs import DocsError
from docs.pages import SOURCE_FOLDER

PLAN = pathlib.Path(__file__).with_name("navigation.toml")


def _toctree(entries: Iterable[str], caption: str = "") -> str:
    head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", *head, "", *entries, "```", ""])


def add_navigation(folder: pathlib.Path, plan: pathlib.Path = PLAN) -> None:
    """Appends the toctrees to index.md and to pages with children. DocsError: a page is in no section."""
    names = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.md"))
    free = [name for name in names if name != "index" and not name.startswith(f"{SOURCE_FOLDER}/")]

    def take(entry: str) -> list[str]:
        title, _, pattern = entry.rpartition(" = ")
        found = [name for name in free if fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")]
        for name in found:
            free.remove(name)
        return [f"{title} </{name}>" if title else f"/{name}" for name in found]

    start = ""
    for section in tomllib.loads(plan.read_text(encoding="utf-8"))["section"]:
        entries = []
        for entry in section["pages"]:
            if isinstance(entry, str):
                entries += take(entry)
                continue
            parent = take(entry[0])
            if parent:
                children = [name for pattern in entry[1:] for name in take(pattern)]
                with open(folder / f"{entry[0].split(' = ')[-1]}.md", "a", encoding="utf-8") as page:
                    page.write(_toctree(children))
            entries += parent
        if entries:
            start += _toctree(entries, section["title"])
    if free:
        raise DocsError(f"no section of {plan.name} has {', '.join(free)}: add the page where its readers look")
    with open(folder / "index.md", "a", encoding="utf-8") as page:
        page.write(start)
