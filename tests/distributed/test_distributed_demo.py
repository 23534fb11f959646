"""The demo's model trains on two ranks with three wrappers as it does on the CPU with gloo."""

from __future__ import annotations

import pathlib

from distributed.ranks import run_ranks


def test_all_losses_are_equal_and_nothing_falls_back(tmp_path: pathlib.Path) -> None:
    run = run_ranks("examples.demo.ranks", 2, ["--steps", "20"], tmp_path, seconds=120)
    run.check()
    output = run.outputs[0]
    assert output.count("20 losses of each rank: equal") == 3, run.text
    assert "operators that fell back to the CPU: none" in output, run.text
