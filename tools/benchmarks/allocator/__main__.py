"""`nox -s bench-allocator`: memory, driver calls and time of every trace, against other allocators in the same run.

The traces in traces/ were recorded from unmodified models on meta tensors; the others are generated from seeds. The
peers are PyTorch's own CUDA allocator and RMM's pool, both on the emulated CUDA runtime of tests/sim_vendor/cudart, and
the host's allocators. A peer that this machine cannot run is named, and the promises about it count as not measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tb_allocator import replay, traces

from benchmarks import pages
from benchmarks.page import write

from . import acceptance, comparison, instructions, programs

RECORDED = sorted((Path(__file__).parent / "traces").glob("*.xz"))
PINNED = [f"generate:{name}:{seed}" for name in traces.PINNED_NAMES for seed in range(3)]
PINNING_CALLS = ("mem_alloc_host", "mem_free_host")
PAGES = "expandable_segments:True"
NOT_CALLS = ("event_record", "event_query")  # calls that are not counted: they move no memory
ORDERING_CALLS = (*NOT_CALLS, "stream_wait")  # calls that only order streams


def measure(name: str) -> dict[str, Any]:
    """Replays a trace and returns its figures. `name` is what tb_allocator.replay takes."""
    trace = replay.load(name)
    rounds = replay.replay(trace, settings=PAGES, repetitions=5)["repetitions"]
    steady = rounds[-1]["calls"]
    planned = replay.replay(trace, settings=PAGES, repetitions=4, plan=True)
    last = planned["repetitions"][-1]
    return {
        "events": trace.events,
        "peak_live": trace.peak_live,
        "utilisation": trace.peak_live / max(one["peak_reserved"] for one in rounds),
        "nanoseconds_per_event": min(one["seconds"] for one in rounds) * 1e9 / trace.events,
        "first_calls": rounds[0]["calls"],
        "steady_calls": steady,
        "memory_calls_per_event": sum(steady[call] for call in steady if call not in NOT_CALLS) / trace.events,
        "synchronisations": sum(one["calls"]["synchronize"] for one in rounds),
        "plan": {
            **planned["plan"],
            "utilisation": trace.peak_live / last["peak_reserved"],
            "nanoseconds_per_event": min(one["seconds"] for one in planned["repetitions"][1:]) * 1e9 / trace.events,
            "calls": last["calls"],
            "memory_calls": sum(last["calls"][call] for call in last["calls"] if call not in ORDERING_CALLS),
        },
        "ladder": {str(step): completed for step, completed in replay.ladder(trace, settings=PAGES).items()},
    }


def measure_pinned(name: str) -> dict[str, Any]:
    """Replays a trace as pinned memory and returns its figures. The first repetition counts too."""
    trace = replay.load(name)
    rounds = replay.replay(trace, pinned=True, repetitions=5)["repetitions"]
    return {
        "events": trace.events,
        "peak_live": trace.peak_live,
        "waste": max(one["peak_reserved"] for one in rounds) / trace.peak_live,
        "nanoseconds_per_event": min(one["seconds"] for one in rounds) * 1e9 / trace.events,
        "calls_per_event": [sum(one["calls"][call] for call in PINNING_CALLS) / trace.events for one in rounds],
    }


def pinned_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Formats the results of measure_pinned(), which are given by trace."""
    lines = [f"{'pinned memory':28}{'waste':>9}{'ns/event':>10}{'calls/event, first':>20}{'last':>8}"]
    for name, one in results.items():
        first, *_, last = one["calls_per_event"]
        times = f"{one['waste']:>9.4f}{one['nanoseconds_per_event']:>10.1f}{first:>20.4f}{last:>8.4f}"
        lines.append(f"{Path(name).name.removesuffix('.txt.xz'):28}{times}")
    return "\n".join(lines)


def main() -> None:
    """Measures the chosen traces, by default all."""
    parser = argparse.ArgumentParser(prog="nox -s bench-allocator --", description=__doc__.splitlines()[0])
    parser.add_argument("--trace", action="append", help="a trace as tb_allocator.replay takes it; by default all")
    parser.add_argument("--json", type=Path, default=Path("build/bench-allocator.json"))
    parser.add_argument("--library", type=Path, help="liballocator_under_test.a; without it no times against peers")
    parser.add_argument("--folder", type=Path, default=Path("build/bench-allocator"), help="for what is downloaded")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write docs/results/allocator.md there")
    options = parser.parse_args()
    names = options.trace or [*map(str, RECORDED), *(f"generate:{name}" for name in traces.NAMES)]
    columns = f"{'trace':28}{'used':>9}{'ns/event':>10}{'calls/event':>13}{'waits':>7}{'plan':>10}{'ns':>7}{'calls':>7}"
    print(f"{columns}  ladder {replay.LADDER}")
    results = {}
    for name in names:
        result = results[name] = measure(name)
        plan = result["plan"]
        marks = " ".join("yes" if done else "no" for done in result["ladder"].values())
        print(
            f"{Path(name).name.removesuffix('.txt.xz'):28}{100 * result['utilisation']:>7.2f} %"
            f"{result['nanoseconds_per_event']:>10.1f}{result['memory_calls_per_event']:>13.4f}"
            f"{result['synchronisations']:>7}{100 * plan['utilisation']:>8.2f} %{plan['nanoseconds_per_event']:>7.1f}"
            f"{sum(plan['calls'].values()):>7}  {marks}"
        )
    pinned = {name: measure_pinned(name) for name in options.trace or PINNED}
    print("", pinned_table(pinned), sep="\n")
    report: dict[str, Any] = {"traces": results, "pinned": pinned}
    lines = acceptance.of_traces(results) + acceptance.of_pinned(pinned) + acceptance.of_history()
    if options.library:
        report["times"], more = compare(names, options.folder, options.library)
        lines += more
    report["acceptance"] = [line.as_dict() for line in lines]
    print("", *lines, sep="\n")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.page:
        write(options.page, pages.allocator(report))


def compare(names: list[str], folder: Path, library: Path) -> tuple[dict[str, Any], list[acceptance.Line]]:
    """Measures and prints our times and the peers', of traces and pairs; returns them and the promises about them."""
    builder = programs.Builder(folder.resolve())
    devices, missing = programs.devices(builder, library.resolve())
    hosts, missing_hosts = programs.hosts(builder)
    for name, why in {**missing, **missing_hosts}.items():
        print(f"not measured here: {name}: {why}")
    replays = comparison.replays(devices, names)
    pairs = comparison.pairs({**devices, **hosts})
    live = {name: replay.load(name).peak_live for name in names}
    print(
        "",
        comparison.used_table(replays, live),
        "",
        comparison.replay_table(replays),
        "",
        comparison.table(pairs, comparison.PAIRS),
        sep="\n",
    )
    counted = instructions.per_event(devices[programs.OURS], names)
    times = {"replays": replays, "pairs": pairs, "instructions": counted, "missing": {**missing, **missing_hosts}}
    lines = acceptance.of_times(replays, {name: pairs[name] for name in devices})
    return times, lines + acceptance.of_instructions(counted)


if __name__ == "__main__":
    main()
