"""The CPython interpreters of this machine, on which wheels that were built by one of them are tested."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

OLDEST, NEWEST = 11, 15  # minor versions of Python 3: requires-python, and the newest that PyTorch has wheels for

_ASK = "import sys; print(sys.implementation.name, *sys.version_info[:3], bool(getattr(sys, 'abiflags', '')))"


@dataclass(frozen=True)
class Interpreter:
    path: str
    major: int
    minor: int
    micro: int

    @property
    def name(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def version(self) -> str:
        return f"{self.major}.{self.minor}.{self.micro}"


CURRENT = Interpreter(sys.executable, *sys.version_info[:3])


def ask(path: str) -> Interpreter | None:
    """What an interpreter says of itself; None if it is no CPython, is free-threaded or does not run.

    A shim of pyenv is found on PATH although it may have nothing to run.
    """
    try:
        done = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    if done.returncode or len(words) != 5 or words[0] != "cpython" or words[4] != "False":
        return None
    return Interpreter(path, *map(int, words[1:4]))


def _candidates(folders: Iterable[str]) -> Iterator[str]:
    names = [f"python3.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    for folder in folders:
        for place in (pathlib.Path(folder), pathlib.Path(folder) / "bin"):
            yield from (str(place / name) for name in (*names, "python3") if (place / name).exists())
    yield sys.executable
    yield from (found for name in names if (found := shutil.which(name)))
    root = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from (str(path) for path in sorted(root.glob("versions/3.*/bin/python3"), reverse=True))


def interpreters(folders: Iterable[str] = ()) -> dict[int, Interpreter]:
    """The first interpreter of each minor version: in these folders, this one, on PATH, then those of pyenv."""
    found: dict[int, Interpreter] = {}
    for path in _candidates(folders):
        interpreter = ask(path)
        if interpreter and interpreter.major == 3 and OLDEST <= interpreter.minor <= NEWEST:
            found.setdefault(interpreter.minor, interpreter)
    return dict(sorted(found.items()))
