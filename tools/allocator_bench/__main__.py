"""`nox -s bench-allocator`: utilisation, capacity ladder, driver calls and time of every trace, as a table and JSON.

The traces in traces/ were recorded from unmodified models on meta tensors; the others are generated from seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from tb_allocator import replay, traces

from allocator_bench.goals import judge, pairs

RECORDED = sorted((Path(__file__).parent / "traces").glob("*.xz"))
PAGES = "expandable_segments:True"
NOT_CALLS = ("event_record", "event_query")  # those that move no memory


def measure(name: str) -> dict[str, Any]:
    """The figures of one trace, by the name that tb_allocator.replay takes."""
    trace = replay.load(name)
    turns = replay.replay(trace, settings=PAGES, repetitions=5)["repetitions"]
    steady = turns[-1]["calls"]
    return {
        "events": trace.events,
        "peak_live": trace.peak_live,
        "utilisation": trace.peak_live / max(one["peak_reserved"] for one in turns),
        "nanoseconds_per_event": min(one["seconds"] for one in turns) * 1e9 / trace.events,
        "first_calls": turns[0]["calls"],
        "steady_calls": steady,
        "memory_calls_per_event": sum(steady[call] for call in steady if call not in NOT_CALLS) / trace.events,
        "synchronisations": sum(one["calls"]["synchronize"] for one in turns),
        "ladder": {str(step): completed for step, completed in replay.ladder(trace, settings=PAGES).items()},
    }


def main() -> None:
    """Measure the traces asked for, or all."""
    parser = argparse.ArgumentParser(prog="nox -s bench-allocator --", description=__doc__.splitlines()[0])
    parser.add_argument("--trace", action="append", help="a trace as tb_allocator.replay takes it; by default all")
    parser.add_argument("--json", type=Path, default=Path("build/bench-allocator.json"))
    options = parser.parse_args()
    names = options.trace or [*map(str, RECORDED), *(f"generate:{name}" for name in traces.NAMES)]
    print(f"{'trace':28}{'used':>9}{'ns/event':>10}{'calls/event':>13}{'waits':>7}  ladder {replay.LADDER}")
    results = {}
    for name in names:
        result = results[name] = measure(name)
        marks = " ".join("yes" if done else "no" for done in result["ladder"].values())
        print(
            f"{Path(name).name.removesuffix('.txt.xz'):28}{100 * result['utilisation']:>7.2f} %"
            f"{result['nanoseconds_per_event']:>10.1f}{result['memory_calls_per_event']:>13.4f}"
            f"{result['synchronisations']:>7}  {marks}"
        )
    used = [result["utilisation"] for result in results.values()]
    print(f"{'worst':28}{100 * min(used):>7.2f} %\n{'mean':28}{100 * statistics.mean(used):>7.2f} %")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    times = pairs()
    goals = judge(results, times)
    for goal in goals:
        print(f"{'met' if goal.met else 'NOT MET':8}{goal.text}: {goal.value:.4g} (goal {goal.bound})")
    report = {"traces": results, "pairs": times, "goals": [goal.as_dict() for goal in goals]}
    options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
