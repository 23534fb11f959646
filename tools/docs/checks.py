"""Checks of the rendered site: links, anchors, no use of the network, and the names of the Python reference."""

from __future__ import annotations

import html.parser
import pathlib
import urllib.parse
import zlib
from collections.abc import Mapping

from docs import DocsError

# Tags whose address the browser fetches by itself, unlike that of <a>, which the reader follows.
_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
# Links in a page's head that the browser does not fetch.
_NAMED_ONLY = {"canonical", "next", "prev", "author", "copyright", "index", "search"}


class _Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        address = values.get(_FETCHED.get(tag, ""), "")
        if address and not _NAMED_ONLY & set(values.get("rel", "").split()):
            self.fetched.append(address)


def check_links(site: pathlib.Path) -> tuple[int, int]:
    """Checks every link inside the site, and its anchor. Returns the numbers of pages and links.

    DocsError lists dead links, and addresses outside of the site that a page would fetch.
    """
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    problems, count = [], 0
    for path, page in pages.items():
        shown = path.relative_to(site)
        for address in page.fetched:
            if urllib.parse.urlsplit(address).netloc:
                problems.append(f"{shown} fetches {address}: the site has to work without a network")
        for address in page.links + page.fetched:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                problems.append(f"{shown}: {address} leads to nothing")
            elif parts.fragment and target in pages:
                anchor = urllib.parse.unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    problems.append(f"{shown}: {address}: that page has no anchor {anchor}")
    for path in site.rglob("*.css"):
        for part in path.read_text(encoding="utf-8").split("url(")[1:]:
            part = part.lstrip("\"' ")
            if part.startswith(("http:", "https:", "//")):
                problems.append(f"{path.relative_to(site)} fetches {part[:60]}: the site has to work without a network")
    if problems:
        raise DocsError("dead links:\n" + "\n".join(sorted(set(problems))))
    return len(pages), count


def read_inventory(path: pathlib.Path) -> dict[str, str]:
    """The Python entries of the site, qualified name to kind, from Sphinx's objects.inv, version 2."""
    *_, packed = path.read_bytes().split(b"\n", 4)
    entries = {}
    for line in zlib.decompress(packed).decode().splitlines():
        name, kind, *_ = line.split(" ")
        if kind.startswith("py:"):
            entries[name] = kind.removeprefix("py:")
    return entries


def check_names(public: Mapping[str, bool | None], entries: Mapping[str, str]) -> int:
    """Compares the installed packages' public names with the entries. Returns the number of names.

    public: qualified name to whether it is described (a docstring, or a field that its class describes); None: needs no
    entry. DocsError: a name has no entry, an entry has no name, or a name has no docstring.
    """
    wanted = [name for name, described in public.items() if described is not None]
    problems = [
        f"{name} is public and on no page: a stub or __all__ lacks it" for name in wanted if name not in entries
    ]
    problems += [
        f"{name} is on a page, and the installed package has no such name" for name in entries if name not in public
    ]
    problems += [f"{name} has no docstring" for name in wanted if not public[name]]
    if problems:
        raise DocsError("names:\n" + "\n".join(sorted(problems)))
    return len(wanted)
