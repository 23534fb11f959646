"""Replay a trace of allocations on a device without memory: what an allocator's settings cost and save.

    python -m tb_allocator.replay TRACE [--capacity SIZE|Kx] [--set key:value,...] [--ladder] [--plan] [--pinned]

TRACE is a file of lines `a ID BYTES STREAM`, `f ID`, `r ID STREAM` (record_stream) and `# text`, plain or .xz; a .csv
log of RMM; a .pickle of PyTorch's or our memory snapshot with history; or `generate:NAME[:SEED]` for a trace that
tb_allocator.traces makes. Nothing is touched but counters, so a trace of a large device replays anywhere.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tb_device import console

from . import _core, imports, traces
from ._core import _bytes_text

LADDER = (1.005, 1.01, 1.02, 1.05, 1.10, 1.20)
_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}


def read(trace: str) -> bytes:
    """The lines of a trace by the name that the command takes. OSError, ValueError where it is no trace."""
    if trace.startswith("generate:"):
        name, _, seed = trace.removeprefix("generate:").partition(":")
        return traces.generate(name, int(seed or 0)).encode()
    data = Path(trace).read_bytes()
    if trace.endswith(".csv"):
        return imports.from_rmm_log(data.decode()).encode()
    if trace.endswith((".pickle", ".pkl")):
        return imports.from_snapshot(data).encode()
    return lzma.decompress(data) if trace.endswith(".xz") else data


def load(trace: str) -> _core._Trace:
    """Parse a trace by the name that the command takes. OSError, ValueError with the line where it is wrong."""
    return _core._Trace(read(trace))


def replay(
    trace: _core._Trace,
    *,
    capacity: int | None = None,
    settings: str = "",
    repetitions: int = 3,
    lag: int = 0,
    samples: int = 0,
    plan: bool = False,
    pinned: bool = False,
) -> dict[str, Any]:
    """Run a trace several times through one allocator.

    capacity: bytes of the device, None for no limit. settings: as in TB_ALLOC_CONF. lag: events of the trace by which
    the work of a stream is behind the host. samples: points of the timeline of the first repetition. plan: each
    repetition is a step of a plan (see Arena.plan), of which the first is recorded; `plan` in the result has its
    figures, and what making it costs is in no repetition. pinned: of host memory; streams matter where they are
    recorded only, and there are no plans.

    Returns `repetitions`, for each completed, seconds, peak_reserved (bytes), calls (of the driver, by name), and
    failed_event and failed_bytes when memory ran out, which ends the replay; and `samples` of (event, bytes allocated,
    bytes reserved). ValueError for settings that there are not, and for a plan of pinned memory.
    """
    if plan and pinned:
        raise ValueError("pinned memory has no plans: ask for one of the two")
    return _core._replay(trace, capacity or 0, settings, repetitions, lag, samples, plan, pinned)


def ladder(trace: _core._Trace, *, settings: str = "", lag: int = 0, pinned: bool = False) -> dict[float, bool]:
    """Whether three repetitions complete at each capacity of LADDER, as a multiple of the most live bytes."""
    return {
        step: all(
            one["completed"]
            for one in replay(trace, capacity=int(step * trace.peak_live), settings=settings, lag=lag, pinned=pinned)[
                "repetitions"
            ]
        )
        for step in LADDER
    }


def capacity_of(text: str, trace: _core._Trace) -> int:
    """Bytes from "80G", "512M" or "1.02x", a multiple of the most live bytes. ValueError for anything else."""
    if text.endswith("x"):
        return int(float(text[:-1]) * trace.peak_live)
    unit = _UNITS.get(text[-1:].lower())
    return int(float(text[:-1]) * (1 << unit)) if unit else int(text)


def table(trace: _core._Trace, result: dict[str, Any]) -> str:
    """The repetitions as text."""
    lines = [f"{'repetition':12}{'utilisation':>12}{'reserved':>14}{'ns/event':>10}  driver calls"]
    for number, one in enumerate(result["repetitions"], 1):
        calls = ", ".join(f"{name} {count}" for name, count in one["calls"].items() if count)
        used = 100 * trace.peak_live / one["peak_reserved"] if one["peak_reserved"] else 0.0
        time = one["seconds"] * 1e9 / max(trace.events, 1)
        lines.append(
            f"{number:<12}{used:>10.2f} %{_bytes_text(one['peak_reserved']):>14}{time:>10.1f}  {calls or 'none'}"
        )
        if not one["completed"]:
            size = _bytes_text(one["failed_bytes"])
            lines.append(f"out of memory at event {one['failed_event']}, which asked for {size}")
    return "\n".join(lines)


def plan_line(plan: dict[str, Any]) -> str:
    """The figures of a plan as text."""
    return (
        f"plan: {plan['placed']} of {plan['allocations']} allocations placed in {plan['planning_seconds']:.1f} s, "
        f"{100 * plan['utilisation']:.2f} % of {_bytes_text(plan['reserved_bytes'])} used, {plan['hits']} hits, "
        f"{plan['divergences']} steps diverged, {plan['handovers']} waits between streams"
    )


def plot(result: dict[str, Any], file: str) -> None:
    """Draw allocated and reserved bytes over the events. ImportError without matplotlib."""
    from matplotlib.figure import Figure

    events, allocated, reserved = zip(*result["samples"], strict=True)
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(events, [value / 2**30 for value in reserved], label="reserved")
    axes.plot(events, [value / 2**30 for value in allocated], label="allocated")
    axes.set(xlabel="event", ylabel="GiB", ylim=0)
    axes.legend()
    figure.savefig(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 where a repetition ran out of memory."""
    parser = argparse.ArgumentParser(prog="python -m tb_allocator.replay", description=__doc__.splitlines()[0])
    parser.add_argument("trace", help=f"a file, or generate:NAME[:SEED] with NAME of {', '.join(traces.ALL_NAMES)}")
    parser.add_argument("--capacity", help="of the device: 80G, 512M, or 1.02x for a multiple of the most live bytes")
    parser.add_argument("--set", default="", dest="settings", metavar="KEY:VALUE,...", help="as in TB_ALLOC_CONF")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--lag", type=int, default=0, help="events by which the streams are behind the host")
    parser.add_argument("--plan", action="store_true", help="places computed from the first repetition")
    parser.add_argument("--pinned", action="store_true", help="of pinned host memory instead of a device's")
    parser.add_argument("--ladder", action="store_true", help="whether it completes near its most live bytes")
    parser.add_argument("--plot", metavar="FILE", help="a PNG or SVG of reserved and allocated memory")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    try:
        trace = load(options.trace)
        capacity = capacity_of(options.capacity, trace) if options.capacity else None
        result = replay(
            trace,
            capacity=capacity,
            settings=options.settings,
            repetitions=options.repetitions,
            lag=options.lag,
            samples=1000 if options.plot else 0,
            plan=options.plan,
            pinned=options.pinned,
        )
        steps = (
            ladder(trace, settings=options.settings, lag=options.lag, pinned=options.pinned) if options.ladder else {}
        )
    except (OSError, ValueError, lzma.LZMAError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    if options.json:
        facts = {"events": trace.events, "streams": trace.streams, "peak_live": trace.peak_live, "ladder": steps}
        print(json.dumps({**facts, **result}))
    else:
        print(f"{trace.events} events, {trace.streams} streams, at most {_bytes_text(trace.peak_live)} live")
        print(table(trace, result))
        if options.plan:
            print(plan_line(result["plan"]))
        for step, completed in steps.items():
            print(f"capacity {step:5.3f}x: {'completes' if completed else 'runs out of memory'}")
    if options.plot:
        plot(result, options.plot)
    return 0 if all(one["completed"] for one in result["repetitions"]) else 1


if __name__ == "__main__":
    sys.exit(console.run(main))
