"""The plugin that makes unexpected skips fail, run by pytest on small test files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from pytest_plugins import strict_skips

TESTS = """
import pytest

def test_passes():
    assert 1 + 1 == 2

@pytest.mark.skip(reason="no such hardware")
def test_skipped():
    assert False
"""


def run(folder: pathlib.Path, tests: str, expected: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    (folder / "expected.txt").write_text(expected)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-ra",
        "-p",
        "pytest_plugins.strict_skips",
        "--strict-skips",
        "expected.txt",
        "test_it.py",
    ]
    tools = str(pathlib.Path(strict_skips.__file__).parents[1])
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": tools}, capture_output=True, text=True, check=False
    )


def test_an_unexpected_skip_fails_the_run_and_is_named(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, TESTS, "# nothing\n")
    assert done.returncode == 1
    assert "UNEXPECTED SKIP test_it.py::test_skipped" in done.stdout


def test_a_listed_skip_passes(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, TESTS, "*::test_skipped | the machine lacks it\n")
    assert done.returncode == 0, done.stdout
    assert "UNEXPECTED" not in done.stdout


def test_a_module_that_skips_itself_is_noticed(tmp_path: pathlib.Path) -> None:
    skipped = "import pytest\npytest.importorskip('a_module_that_is_not_there')\ndef test_a():\n    assert True\n"
    (tmp_path / "test_other.py").write_text("def test_b():\n    assert True\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = test_other.py\n")
    done = run(tmp_path, skipped, "")
    assert done.returncode == 1
    assert "UNEXPECTED SKIP test_it.py" in done.stdout


def test_an_expected_failure_is_no_skip(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_a():\n    assert False\n", "")
    assert done.returncode == 0, done.stdout


def test_no_test_at_all_fails(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "", "").returncode == 5


def test_a_line_without_a_reason_is_refused() -> None:
    assert strict_skips.read_expected("a::b[1] | why # note\n\n# c\n") == [("a::b[[]1]", "why")]
    with pytest.raises(ValueError, match=r"line 1 .* reason"):
        strict_skips.read_expected("a::b")
