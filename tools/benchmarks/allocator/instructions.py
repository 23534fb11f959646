"""Instructions of one event of a trace, counted under callgrind: other load of the machine does not change them."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tb_allocator import replay

from .programs import Program


def _collected(program: Program, trace: Path, repetitions: int) -> int:
    """Instructions inside measure::play in all repetitions together. RuntimeError if callgrind reports no count."""
    with tempfile.TemporaryDirectory() as scratch:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out"]
        tool += ["--collect-atstart=no", "--toggle-collect=*measure::play*"]
        message = program.run_under(tool, "replay", str(trace), str(repetitions))
    found = re.search(r"Collected : (\d+)", message)
    if not found:
        raise RuntimeError(f"callgrind counted nothing: {message.strip()[-400:]}")
    return int(found[1])


def per_event(program: Program, traces: Sequence[str]) -> dict[str, float]:
    """Instructions of an event by trace; {} if valgrind is not installed.

    Only the second repetition counts, because the first one also warms up.
    """
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
