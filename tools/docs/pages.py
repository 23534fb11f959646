"""Collects the pages into one folder with the repository's paths, so that links between pages need no change.

A link to a file that is not a page, such as a header, becomes a link to a page that shows the file. With
TB_DOCS_SOURCE_URL it becomes a link to that address, in which "{path}" is replaced by the file's path. A dead link is
an error.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Iterator

from docs import DocsError

PATTERNS = ("README.md", "docs/**/*.md", "packages/*/README.md", "packages/*/drivers/*/README.md")
PICTURES = {".svg", ".png", ".jpg"}
LANGUAGES = {".py": "python", ".pyi": "python", ".h": "c++", ".cpp": "c++", ".cuh": "c++", ".c": "c", ".inc": "c"}
LANGUAGES |= {".yaml": "yaml", ".toml": "toml", ".json": "json", ".md": "markdown"}
SOURCE_FOLDER = "source"

# Fenced blocks and code spans, which contain no links, or a link: its address, then its anchor.
_LINK = re.compile(
    r"^(```+|~~~+).*?^\1|(`+)(?!`).+?(?<!`)\2(?!`)|(\]\()([^)\s#]*)(#[^)\s]*)?(?=[)\s])", re.DOTALL | re.MULTILINE
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:")


def _relative(path: str, page: str) -> str:
    return os.path.relpath(path, os.path.dirname(page) or ".")


class Pages:
    """The pages of a tree, by their paths in it."""

    def __init__(self, root: pathlib.Path, source_url: str = "") -> None:
        self.root = root
        self.source_url = source_url
        self.texts: dict[str, str] = {}
        self.pictures: set[str] = set()
        self.sources: set[str] = set()
        self.problems: list[str] = []
        waiting = sorted({str(path.relative_to(root)) for pattern in PATTERNS for path in root.glob(pattern)})
        while waiting:
            name = waiting.pop(0)
            if name not in self.texts:
                self.texts[name] = ""  # so that a page that links to itself is not read twice
                self.texts[name], linked = self._read(name)
                waiting += linked
        if self.problems:
            raise DocsError("\n".join(self.problems))

    def _read(self, name: str) -> tuple[str, list[str]]:
        """The page with its links rewritten, and the Markdown files that it links to."""
        text = (self.root / name).read_text(encoding="utf-8")
        linked = []

        def rewritten(match: re.Match[str]) -> str:
            if match[3] is None or not match[4] or _ADDRESS.match(match[4]):
                return match[0]  # code, an anchor of this page, or another site
            path = os.path.normpath(os.path.join(os.path.dirname(name), match[4]))
            target = self.root / path
            if not target.exists() or path.startswith(".."):
                line = text.count("\n", 0, match.start()) + 1
                self.problems.append(f"{name}:{line}: the link {match[4]} leads to nothing; mend it")
                return match[0]
            if target.is_dir() and (target / "README.md").is_file():
                path = f"{path}/README.md"
            if path.endswith(".md"):
                linked.append(path)
                return f"{match[3]}{_relative(path, name)}{match[5] or ''}"
            if target.suffix in PICTURES:
                self.pictures.add(path)
                return match[0]
            return f"{match[3]}{self._source(path, name)}"

        return _LINK.sub(rewritten, text), linked

    def _source(self, path: str, name: str) -> str:
        if self.source_url:
            return self.source_url.replace("{path}", path)
        self.sources.add(path)
        return _relative(f"{SOURCE_FOLDER}/{path}.md", name)

    def stage(self, folder: pathlib.Path) -> None:
        """Writes pages, pictures and the pages of source files below `folder`."""
        for name, text in self.texts.items():
            _write(folder / name, text)
        for name in self.pictures:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, folder / name)
        for name, text in self._source_pages():
            _write(folder / SOURCE_FOLDER / f"{name}.md", text)

    def _source_pages(self) -> Iterator[tuple[str, str]]:
        """Yields a page for each linked file. A linked folder becomes a list of its files, which get pages too."""
        files = {name for name in self.sources if (self.root / name).is_file()}
        for folder in sorted(self.sources - files):
            entries = sorted(path for path in (self.root / folder).iterdir() if path.name != "__pycache__")
            lines = []
            for entry in entries:
                if entry.is_file() and entry.suffix in LANGUAGES:
                    files.add(f"{folder}/{entry.name}")
                    lines.append(f"- [{entry.name}]({pathlib.PurePath(folder).name}/{entry.name}.md)")
                else:
                    lines.append(f"- {entry.name}{'/' if entry.is_dir() else ''}")
            yield folder, _source_page(folder, "\n".join(lines) + "\n")
        for name in sorted(files):
            text = (self.root / name).read_text(encoding="utf-8")
            fence = "`" * (max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))]))
            language = LANGUAGES.get(pathlib.PurePath(name).suffix, "text")
            yield name, _source_page(name, f"{fence}{language}\n{text.rstrip()}\n{fence}\n")


def _source_page(path: str, body: str) -> str:
    # Source files are left out of the search, where they would crowd out the pages.
    return f"---\norphan: true\nnosearch: true\n---\n# {path}\n\n{body}"


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
