"""The documents are right: their Python examples run, and their links lead to files.

Examples that need a GPU, or torchrun, are fenced as `py` and are not run here. The text above them says what runs
them. Those of READMEs say what they need besides their package. All of that is installed here; `nox -s release`
installs only that.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import ROOT, RunPython
from release.examples import examples

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "packages").glob("*/README.md"))]
EXAMPLES = [
    pytest.param(example.code, id=f"{page.relative_to(ROOT)}-{example.number}")
    for page in PAGES
    for example in examples(page.read_text())
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example_runs(code: str, run_python: RunPython, tmp_path: pathlib.Path) -> None:
    run_python(f"import os\nos.chdir({str(tmp_path)!r})\n{code}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: pathlib.Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def test_every_decision_is_listed_with_its_title_date_and_status() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text().splitlines()
    for record in RECORDS:
        number = record.name[:4]
        title, _, facts, *_ = record.read_text().splitlines()
        date, status = facts.split(", ", 1)
        row = f"| [{number}]({record.name}) | {title.removeprefix(f'# {number}: ')} | {date} | {status} |"
        assert listed.count(row) == 1, f"docs/decisions/README.md lacks the line: {row}"
    assert sum(line.startswith("| [") for line in listed) == len(RECORDS)


def test_decisions_are_numbered_from_1_on_by_date() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))
    dates = [record.read_text().splitlines()[2].split(",")[0] for record in RECORDS]
    assert dates == sorted(dates)
