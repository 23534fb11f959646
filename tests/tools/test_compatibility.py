"""The tables of versions say what was recorded."""

from __future__ import annotations

import json
import pathlib

import pytest
from checks import compatibility

ROWS = [
    {
        "torch": "2.14.1+cu130",
        "python": "3.11.7",
        "date": "2026-11-26",
        "counts": {
            "demo": {"passed": 1, "failed": 0},
            "tb-amp": {"passed": 70, "failed": 0},
            "tb-ops": {"passed": 1200, "failed": 2},
            "conformance": {"passed": 6000, "failed": 0},
        },
    },
    {"torch": "", "python": "3.12.1", "date": "2026-11-26", "counts": {"tb-device": {"passed": 643, "failed": 0}}},
]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in compatibility.PAGES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# Title\n\n{compatibility.BEGIN}\n{compatibility.END}\n\nThe end.\n")
    (tmp_path / compatibility.RECORDED).write_text(json.dumps(ROWS))
    return tmp_path


def test_the_short_table_sums_up_tests_and_names_failures(tree: pathlib.Path) -> None:
    assert compatibility.main([], tree) == 0
    assert (tree / "README.md").read_text().splitlines()[4:] == [
        "| PyTorch | CPython | tests | conformance, quick | 40 training steps |",
        "| --- | --- | --- | --- | --- |",
        "| 2.14.1+cu130 | 3.11.7 | 1,270 passed, 2 failed | 6,000 passed | equal to cpu's |",
        "| none | 3.12.1 | 643 passed |  |  |",
        "",
        compatibility.END,
        "",
        "The end.",
    ]


def test_the_long_table_has_a_column_for_each_task(tree: pathlib.Path) -> None:
    assert compatibility.main([], tree) == 0
    page = (tree / "docs/results/compatibility.md").read_text()
    assert "| PyTorch | CPython | demo | tb-amp | tb-ops | conformance | tb-device | date |" in page
    assert "| none | 3.12.1 |  |  |  |  | 643 passed | 2026-11-26 |" in page


def test_a_page_with_other_figures_is_noticed(tree: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compatibility.main(["--check"], tree) == 1
    compatibility.main([], tree)
    assert compatibility.main(["--check"], tree) == 0
    readme = tree / "README.md"
    readme.write_text(readme.read_text().replace("1,270", "1,271"))
    capsys.readouterr()
    assert compatibility.main(["--check"], tree) == 1
    assert capsys.readouterr().out.startswith("README.md: not what docs/results/compatibility.json says")


def test_a_page_without_markers_is_refused(tree: pathlib.Path) -> None:
    (tree / "README.md").write_text("# Title\n")
    with pytest.raises(ValueError, match="are not there"):
        compatibility.main(["--check"], tree)


def test_the_pages_of_this_tree_say_what_is_recorded() -> None:
    assert compatibility.main(["--check"]) == 0
