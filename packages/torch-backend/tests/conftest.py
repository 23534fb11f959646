"""Runs scripts in fresh processes, for tests that need one."""

import os
import subprocess
import textwrap
from collections.abc import Callable

import pytest
from fork_server import run_program

Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_script() -> Script:
    """What runs a script: the fork server, unless a module of tests overrides it."""
    return run_program


@pytest.fixture
def script(tmp_path: object, run_script: Script) -> Script:
    """Runs Python code in a process of its own; keyword arguments are environment variables (None: unset)."""

    def run(code: str, *, fails: bool = False, **environment: str | None) -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if not key.startswith("TB_") or key == "TB_DRIVER"}
        for key, value in environment.items():
            variables.pop(key, None)
            if value is not None:
                variables[key] = value
        done = run_script(textwrap.dedent(code), variables, cwd=str(tmp_path))
        if not fails:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
