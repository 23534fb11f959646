"""Which interpreters a session finds on a machine."""

from __future__ import annotations

import pathlib
import sys

import pytest
from building.environments import Target
from building.interpreters import CURRENT, Interpreter, ask, interpreters
from building.torch_versions import OLDEST


def fake(folder: pathlib.Path, name: str, answer: str, status: int = 0) -> str:
    """A program that answers as an interpreter would."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho {answer}\nexit {status}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on PATH in place of the machine's, and no pyenv."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def test_the_running_interpreter_says_what_it_is() -> None:
    assert ask(sys.executable) == Interpreter(sys.executable, *sys.version_info[:3])


@pytest.mark.parametrize(
    ("answer", "status"),
    [("pypy 3 12 1 False", 0), ("cpython 3 13 0 True", 0), ("cpython 3 12 1 False", 127), ("nothing", 0)],
    ids=["another implementation", "free-threaded", "a shim of pyenv that runs nothing", "no interpreter"],
)
def test_what_cannot_run_the_wheels_is_left_out(tmp_path: pathlib.Path, answer: str, status: int) -> None:
    assert ask(fake(tmp_path, "python3", answer, status)) is None


def test_a_given_folder_comes_before_path_and_path_before_pyenv(alone: pathlib.Path) -> None:
    given = fake(alone / "given", "python3.13", "cpython 3 13 5 False")
    fake(alone / "path", "python3.13", "cpython 3 13 0 False")
    on_path = fake(alone / "path", "python3.14", "cpython 3 14 1 False")
    fake(alone / "pyenv/versions/3.14.0/bin", "python3", "cpython 3 14 0 False")
    in_pyenv = fake(alone / "pyenv/versions/3.15.0/bin", "python3", "cpython 3 15 0 False")
    found = interpreters([str(alone / "given")])
    assert found[13].path == given
    assert found[14].path == on_path
    assert found[15].path == in_pyenv
    assert found[sys.version_info[1]] == CURRENT


def test_versions_outside_of_the_supported_range_are_left_out(alone: pathlib.Path) -> None:
    fake(alone / "given", "python3", "cpython 3 9 1 False")
    assert 9 not in interpreters([str(alone / "given")])


def test_environments_of_other_versions_have_names_of_their_own() -> None:
    python = Interpreter("/python3.12", 3, 12, 1)
    assert Target(CURRENT, OLDEST).suffix(torch=True) == ""
    assert Target(CURRENT, "2.99").suffix(torch=True) == "-torch-2.99"
    assert Target(CURRENT, "2.99").suffix(torch=False) == ""
    assert Target(python, "2.99").suffix(torch=True) == "-torch-2.99-python-3.12"
    assert Target(python, "2.99").suffix(torch=False) == "-python-3.12"
