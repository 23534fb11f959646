"""Instructions of one event of a trace, counted under callgrind: a figure that no other load of the machine changes."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tb_allocator import replay

from .programs import Program


def _collected(program: Program, trace: Path, repetitions: int) -> int:
    """Instructions inside measure::play of all repetitions together. RuntimeError where callgrind tells none."""
    with tempfile.TemporaryDirectory() as scratch:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out"]
        tool += ["--collect-atstart=no", "--toggle-collect=*measure::play*"]
        message = program.run_under(tool, "replay", str(trace), str(repetitions))
    found = re.search(r"Collected : (\d+)", message)
    if not found:
        raise RuntimeError(f"callgrind counted nothing: {message.strip()[-400:]}")
    return int(found[1])


def per_event(program: Program, traces: Sequence[str]) -> dict[str, float]:
    """By trace, of the second repetition: what the first one costs more is warming up. Empty without valgrind."""
    if not shutil.which("valgrind"):
        return {}
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for trace in traces:
            file = Path(scratch) / "trace.txt"
            file.write_bytes(replay.read(trace))
            both = _collected(program, file, 2)
            results[trace] = (both - _collected(program, file, 1)) / replay.load(str(file)).events
    return results
