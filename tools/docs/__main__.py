"""Renders the site: `python -m docs PUBLIC_NAMES.json`, in the environment that nox makes. See session.py.

build/docs/pages has the Markdown that is rendered, and build/site the site. Sphinx's warnings are errors. Afterwards
every link and anchor of the site is checked, and the entries are compared with the installed packages' public names.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from docs import DocsError
from docs.checks import check_links, check_names, read_inventory
from docs.navigation import add_navigation
from docs.pages import Pages
from docs.python_reference import write_reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = pathlib.Path(__file__).with_name("site")


def stage(root: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the whole source of the site to `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    Pages(root, os.environ.get("TB_DOCS_SOURCE_URL", "")).stage(folder)
    write_reference(root, folder)
    (folder / "index.md").write_text(start_page(folder), encoding="utf-8")
    add_navigation(folder)


def start_page(folder: pathlib.Path) -> str:
    """start.md without list items whose page does not exist, since optional pages may be absent."""
    lines = (SETTINGS / "start.md").read_text(encoding="utf-8").splitlines(keepends=True)
    item = re.compile(r"- \[[^]]*\]\(([^)#]+)\)$")
    return "".join(line for line in lines if not (found := item.match(line)) or (folder / found[1]).exists())


def render(folder: pathlib.Path, site: pathlib.Path) -> None:
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-c", str(SETTINGS), "-d", str(folder.parent / "doctrees"), str(folder), str(site)]
    if subprocess.run(command).returncode:
        raise DocsError("Sphinx reported what stands above; mend the pages")


def main(arguments: list[str]) -> int:
    [names] = arguments
    site = ROOT / "build" / "site"
    try:
        stage(ROOT, ROOT / "build" / "docs" / "pages")
        render(ROOT / "build" / "docs" / "pages", site)
        entries = check_names(json.loads(pathlib.Path(names).read_text()), read_inventory(site / "objects.inv"))
        pages, links = check_links(site)
    except DocsError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    print(f"docs: {pages} pages, {links} links, {entries} public names: {site}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
