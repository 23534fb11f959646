"""Runs scripts in fresh processes, for tests that need one."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def script(tmp_path: object) -> Script:
    """Runs Python code in a fresh process; keyword arguments are environment variables (None: unset)."""

    def run(code: str, *, fails: bool = False, **environment: str | None) -> subprocess.CompletedProcess[str]:
        variables = {key: value for key, value in os.environ.items() if not key.startswith("TB_") or key == "TB_DRIVER"}
        for key, value in environment.items():
            variables.pop(key, None)
            if value is not None:
                variables[key] = value
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=variables,
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if not fails:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
