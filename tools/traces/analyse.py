"""Reads a trace with Holistic Trace Analysis and fails if it finds something else: python -m traces.analyse FILE.

Runs in an environment with HTA and without torch. HTA's statistics of launches look for the names of CUDA's functions,
and find none.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections import Counter

from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

STREAMS = {0, 1}


def main(file: str) -> int:
    rows = [row for row in json.loads(pathlib.Path(file).read_text())["traceEvents"] if row.get("cat") == "kernel"]
    analysis = TraceAnalysis(trace_files={0: file}, trace_dir=str(pathlib.Path(file).parent))
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    temporal = analysis.get_temporal_breakdown(visualize=False)
    idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    ranges = analysis.get_gpu_user_annotation_breakdown(visualize=False)
    found = set(kernels["name"])
    expected = {row["name"] for row in rows}
    busy, whole = float(temporal["compute_time(us)"].iloc[0]), float(temporal["kernel_time(us)"].iloc[0])
    problems = []
    if found != expected:
        problems.append(f"names of kernels differ: {sorted(found ^ expected)}")
    if not 0 < busy < whole:
        problems.append(f"{busy} us of {whole} us are computation")
    if set(idle["stream"]) != STREAMS:
        problems.append(f"idle time is known of the streams {sorted(set(idle['stream']))}, not of {sorted(STREAMS)}")
    if ranges is None or "training" not in set(ranges["name"]):
        problems.append("the range of record_function is missing")
    for problem in problems:
        print(f"{file}: {problem}", file=sys.stderr)
    print(f"HTA read {len(rows)} kernels of {len(Counter(row['tid'] for row in rows))} streams, {len(found)} names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
