"""torch's own viewer of memory snapshots opens those of tb-allocator."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

from conftest import RunPython

# It runs in its own process, because other tests use the memory of this one.
DUMP = """
import tb_allocator
tb_allocator.record_memory_history()
with tb_allocator.empty(3 << 20), tb_allocator.empty(1000):
    tb_allocator.dump_snapshot({path!r})
"""


def test_torchs_memory_viz_reads_a_snapshot(run_python: RunPython, tmp_path: Path) -> None:
    run_python(DUMP.format(path=str(tmp_path / "snapshot.pickle")))
    viz: Any = importlib.import_module("torch.cuda._memory_viz")  # the module has no types
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    summary = viz.segsum(snapshot)
    assert "segments: 2\n" in summary, summary
    assert "total_allocated: 3.0MiB" in summary, summary
    trace = viz.trace(snapshot)
    assert trace.count(" = cudaMalloc(") == 2, trace  # the viewer's name for the allocation of a segment
    assert "[0:3.0MiB]" in trace, trace
    assert "<html" in viz.trace_plot(snapshot)
    assert "<html" in viz.segment_plot(snapshot)
