"""Several tasks of a session all run, and the session fails if one did."""

from __future__ import annotations

import functools
from typing import Any

import nox
import pytest
from building.testing import run_all


class Session:
    """What run_all uses of a nox session."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def log(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def fail() -> None:
    raise nox.command.CommandFailed("no such program")


def test_all_tasks_run_and_what_failed_is_named_at_the_end() -> None:
    session: Any = Session()
    ran: list[str] = []
    tasks = {"one": fail, "two": lambda: ran.append("two"), "three": fail}
    with pytest.raises(nox.command.CommandFailed):
        run_all(session, tasks)
    assert ran == ["two"]
    assert session.warnings[-1] == "failed: one, three"


def test_a_run_inside_of_a_run_does_not_end_it() -> None:
    session: Any = Session()
    ran: list[str] = []
    inner = functools.partial(run_all, session, {"first test": fail})
    with pytest.raises(nox.command.CommandFailed):
        run_all(session, {"torch 1": inner, "torch 2": lambda: ran.append("torch 2")})
    assert ran == ["torch 2"]
    assert session.warnings[-1] == "failed: torch 1"


def test_a_session_whose_tasks_all_pass_passes() -> None:
    session: Any = Session()
    run_all(session, {"one": lambda: None})
    assert session.warnings == []
