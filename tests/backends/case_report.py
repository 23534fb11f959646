"""Runs a program of cases in a process of its own, since a process has one driver, and reads what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def case_report(arguments: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object in the last line that the program prints, and the program's exit status as "status".

    The program gets no TB_ variable but those of `env`.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TB_")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env={**clean, **env}, capture_output=True, text=True, timeout=550, check=False)
    assert done.stdout, done.stderr[-3000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "status": done.returncode}
