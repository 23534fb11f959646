"""tools/docs finds dead links, missing pages and missing names, on small trees with one error each."""

from __future__ import annotations

import pathlib

import pytest
from docs.checks import check_links, check_names
from docs.docstrings import _text as text_as_markdown
from docs.navigation import add_navigation
from docs.pages import Pages

from docs import DocsError


def write(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    files = {
        "README.md": "# Top\n\n[guide](docs/guide.md#use), [header](include/a.h), [folder](include)\n",
        "docs/guide.md": "# Guide\n\n## Use\n\n`[code](nowhere.md)` and [top](../README.md)\n",
        "include/a.h": "/* a.h */\n",
        "other/README.md": "# Other\n",
    }
    return write(tmp_path / "tree", files)


def test_links_between_pages_stay_and_links_to_sources_become_pages(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    Pages(tree).stage(tmp_path / "pages")
    assert (tmp_path / "pages/README.md").read_text() == (
        "# Top\n\n[guide](docs/guide.md#use), [header](source/include/a.h.md), [folder](source/include.md)\n"
    )
    assert (tmp_path / "pages/docs/guide.md").read_text() == (tree / "docs/guide.md").read_text()
    assert "/* a.h */" in (tmp_path / "pages/source/include/a.h.md").read_text()
    assert "(include/a.h.md)" in (tmp_path / "pages/source/include.md").read_text()


def test_sources_can_be_links_to_a_repository(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    Pages(tree, "https://host/main/{path}").stage(tmp_path / "pages")
    assert "[header](https://host/main/include/a.h)" in (tmp_path / "pages/README.md").read_text()
    assert not (tmp_path / "pages/source").exists()


def test_a_readme_that_a_page_links_to_is_a_page(tree: pathlib.Path) -> None:
    write(tree, {"docs/more.md": "[other](../other)\n"})
    pages = Pages(tree)
    assert "other/README.md" in pages.texts
    assert pages.texts["docs/more.md"] == "[other](../other/README.md)\n"


def test_a_link_to_nothing_fails_with_its_line(tree: pathlib.Path) -> None:
    write(tree, {"docs/more.md": "# More\n\n[gone](gone.md)\n"})
    with pytest.raises(DocsError, match=r"docs/more\.md:3: the link gone\.md leads to nothing"):
        Pages(tree)


def test_a_page_in_no_section_fails(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "pages", {"index.md": "# Start\n", "docs/a.md": "# A\n", "docs/b.md": "# B\n"})
    plan = tmp_path / "navigation.toml"
    plan.write_text('[[section]]\ntitle = "One"\npages = ["docs/a", "docs/absent"]\n')
    with pytest.raises(DocsError, match=r"no section of navigation\.toml has docs/b"):
        add_navigation(folder, plan)


def test_sections_become_toctrees_and_children_are_below_their_page(tmp_path: pathlib.Path) -> None:
    files = {"index.md": "# Start\n", "docs/a/README.md": "# A\n", "docs/a/b.md": "# B\n", "docs/c.md": "# C\n"}
    folder = write(tmp_path / "pages", files)
    plan = tmp_path / "navigation.toml"
    plan.write_text('[[section]]\ntitle = "One"\npages = [["Title = docs/a/README", "docs/a/*"], "docs/*"]\n')
    add_navigation(folder, plan)
    assert ":caption: One\n\nTitle </docs/a/README>\n/docs/c\n" in (folder / "index.md").read_text()
    assert "/docs/a/b\n" in (folder / "docs/a/README.md").read_text()


SITE = {"index.html": '<a href="a.html#here">a</a><img src="p.svg">', "a.html": '<p id="here">', "p.svg": "<svg/>"}


def test_a_whole_site_passes(tmp_path: pathlib.Path) -> None:
    assert check_links(write(tmp_path, SITE)) == (2, 2)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"b.html": '<a href="gone.html">'}, r"b\.html: gone\.html leads to nothing"),
        ({"b.html": '<a href="a.html#gone">'}, r"b\.html: a\.html#gone: that page has no anchor gone"),
        ({"b.html": '<a href="#gone">'}, r"that page has no anchor gone"),
        ({"b.html": '<img src="gone.png">'}, r"gone\.png leads to nothing"),
        ({"b.html": '<script src="https://cdn.example/x.js">'}, r"fetches https://cdn\.example/x\.js"),
        ({"b.css": "@font-face { src: url('//fonts.example/f.woff2') }"}, r"b\.css fetches //fonts\.example"),
    ],
)
def test_a_dead_link_or_a_fetch_from_elsewhere_fails(tmp_path: pathlib.Path, files: dict[str, str], text: str) -> None:
    with pytest.raises(DocsError, match=text):
        check_links(write(tmp_path, {**SITE, **files}))


def test_names_and_entries_are_compared_both_ways() -> None:
    entries = {"m": "module", "m.f": "function", "m.C.__call__": "method"}
    assert check_names({"m": True, "m.f": True, "m.C.__call__": None}, entries) == 2
    with pytest.raises(DocsError, match=r"m\.g is public and on no page"):
        check_names({"m": True, "m.f": True, "m.C.__call__": None, "m.g": True}, entries)
    with pytest.raises(DocsError, match=r"m\.f is on a page, and the installed package has no such name"):
        check_names({"m": True, "m.C.__call__": None}, entries)
    with pytest.raises(DocsError, match=r"m\.f has no docstring"):
        check_names({"m": True, "m.f": False, "m.C.__call__": None}, entries)


def test_a_docstring_keeps_its_characters_as_markdown() -> None:
    text = "Calls f(*a) in <b>; see `x*y*z` and __tb_stream__.\n\n>>> f()\n1\n\n    a = 1\n\n    b = 2"
    assert text_as_markdown(text) == [
        r"Calls f(\*a) in \<b>; see `x*y*z` and \_\_tb_stream\_\_.",
        *("", "```pycon", ">>> f()", "1", "```"),
        *("", "```python", "a = 1", "", "b = 2", "```"),
    ]
