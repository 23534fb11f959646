"""Snapshots of tb-allocator opened by torch's own reader of them."""

from __future__ import annotations

import pickle
from pathlib import Path

import tb_allocator
from torch.cuda import _memory_viz

MiB = 1 << 20


def test_torchs_memory_viz_reads_a_snapshot(tmp_path: Path) -> None:
    tb_allocator.record_memory_history()
    with tb_allocator.empty(3 * MiB), tb_allocator.empty(1000):
        tb_allocator.dump_snapshot(tmp_path / "snapshot.pickle")
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    summary = _memory_viz.segsum(snapshot)
    assert "segments: 2\n" in summary, summary
    assert "total_allocated: 3.0MiB" in summary, summary
    trace = _memory_viz.trace(snapshot)
    assert trace.count(" = cudaMalloc(") == 2, trace  # its name for a segment's begin
    assert "[0:3.0MiB]" in trace, trace
    assert "<html" in _memory_viz.trace_plot(snapshot)
    assert "<html" in _memory_viz.segment_plot(snapshot)
    assert _memory_viz.memory(snapshot)
