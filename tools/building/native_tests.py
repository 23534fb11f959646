"""Builds programs of a package's C++ tests (tests/cpp) for Python tests and benchmarks.

The wheel contains no test code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(package: str, target: str) -> Path:
    """Builds the program `target` of tests/cpp below build/native/<package>; quick if nothing changed.

    Needs meson, ninja and nanobind in the Python environment. Raises RuntimeError with the compiler's output if the
    build fails.
    """
    folder = ROOT / "build" / "native" / package
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    commands = [[*meson, "compile", "-C", str(folder), target]]
    if not (folder / "build.ninja").exists():
        commands.insert(0, [*meson, "setup", str(folder), str(ROOT / "packages" / package), "-Dnative_tests=true"])
    for command in commands:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{package}: {target} does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return folder / "tests" / "cpp" / target
