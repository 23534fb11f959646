"""Our times against those of the peers, interleaved in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tb_allocator import replay

from .programs import OURS, RMM, Program

ROUNDS = 3
REPETITIONS = 5
PAIRS = {"pair_512": "pair of 512 B", "pair_65536": "pair of 64 KiB", "pair_4194304": "pair of 4 MiB"}
PAIRS |= {"working_set": "512 live, random", "threads_2": "2 threads, 512 B", "threads_4": "4 threads, 512 B"}


def _least(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The least value of each figure: other work on the machine can only increase it."""
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def _interleaved(programs: Mapping[str, Program], *arguments: str) -> dict[str, dict[str, float]]:
    """The figures of every program. They run interleaved, so that a slow moment of the machine affects all of them."""
    rounds: list[dict[str, dict[str, float]]] = []
    for _ in range(ROUNDS):
        rounds.append({name: program.run(*arguments) for name, program in programs.items()})
    return {name: _least([one[name] for one in rounds]) for name in programs}


def replays(programs: Mapping[str, Program], traces: Sequence[str]) -> dict[str, Any]:
    """For each trace and program: nanoseconds_per_event and peak_reserved, in bytes."""
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for trace in traces:
            file = Path(scratch) / "trace.txt"
            file.write_bytes(replay.read(trace))
            results[trace] = _interleaved(programs, "replay", str(file), str(REPETITIONS))
    return results


def pairs(programs: Mapping[str, Program]) -> dict[str, dict[str, float]]:
    """For each program: nanoseconds by the names of PAIRS."""
    return _interleaved(programs, "pairs")


def table(results: Mapping[str, Mapping[str, float]], rows: Mapping[str, str]) -> str:
    """A table of nanoseconds with a row for each measurement and a column for each program."""
    lines = [f"{'ns':24}" + "".join(f"{name:>18}" for name in results)]
    lines += [
        f"{title:24}" + "".join(f"{result[name]:>18.1f}" for result in results.values()) for name, title in rows.items()
    ]
    return "\n".join(lines)


def replay_table(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A table of nanoseconds for an event with a row for each trace and a column for each program."""
    names = next(iter(results.values()))
    lines = [f"{'ns/event':24}" + "".join(f"{name:>18}" for name in names)]
    for trace, by_name in results.items():
        cells = "".join(f"{one['nanoseconds_per_event']:>18.1f}" for one in by_name.values())
        lines.append(f"{_short(trace)}{cells}")
    return "\n".join(lines)


def used_table(results: Mapping[str, Mapping[str, Mapping[str, float]]], live: Mapping[str, int]) -> str:
    """Percent of the reserved bytes that were live at the peak. RMM's pool is not shown: it reserves beforehand."""
    names = [name for name in next(iter(results.values())) if name != RMM]
    lines = [f"{'used, %':24}" + "".join(f"{name:>18}" for name in names)]
    for trace, by_name in results.items():
        cells = "".join(f"{100 * live[trace] / by_name[name]['peak_reserved']:>18.2f}" for name in names)
        lines.append(f"{_short(trace)}{cells}")
    return "\n".join(lines)


def _short(trace: str) -> str:
    return f"{Path(trace).name.removesuffix('.txt.xz')[:23]:24}"


def ratios(replays: Mapping[str, Mapping[str, Mapping[str, float]]], peer: str) -> dict[str, float]:
    """For each trace, the peer's time divided by ours."""
    return {
        trace: by_name[peer]["nanoseconds_per_event"] / by_name[OURS]["nanoseconds_per_event"]
        for trace, by_name in replays.items()
    }
