"""The pictures of the documents are the output of their scripts."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

PICTURES = pathlib.Path(__file__).parents[2] / "docs" / "pictures"


@pytest.mark.parametrize("script", sorted(PICTURES.glob("*.py")), ids=lambda script: script.stem)
def test_the_picture_is_what_its_script_draws(script: pathlib.Path) -> None:
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_there_is_a_picture() -> None:
    assert list(PICTURES.glob("*.py"))
