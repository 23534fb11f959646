"""Runs the commands of a page as a reader would, and compares their output with the page."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines that its output must contain, in order."""

    section: str
    commands: str
    prints: list[str]


class Shell:
    """Runs commands as in one shell session: the folder and exported variables persist between steps."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._state = folder / "state"
        self._work = folder / "work"
        self._work.mkdir()
        self._state.write_text(f"cd {self._work}\n")

    def run(self, commands: str) -> str:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TB_", "PYTHON"))}
        clean["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
        keep = f'{{ echo "cd $PWD"; export -p | grep -E "TB_|PYTHONPATH"; }} > {self._state}'
        script = f"set -e\n. {self._state}\n{commands}\n{keep} || true"
        done = subprocess.run(
            ["bash", "-c", script], env=clean, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{commands}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def folder(self) -> pathlib.Path:
        return self._work


def check_output(step: Step, output: str) -> None:
    lines = iter(output.splitlines())
    for expected in step.prints:
        pattern = re.sub(r"\\ +", r"\\s+", ".*".join(map(re.escape, expected.split("..."))))
        assert any(re.fullmatch(pattern, line.rstrip()) for line in lines), (
            f"the page promises the line {expected!r} (in this order) from\n{step.commands}\nwhich printed\n{output}"
        )
