"""torchrun starts ranks again, and they go on from the last checkpoint as if nothing had happened."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from distributed.programs.elastic import STEPS
from distributed.ranks import torchrun


def train(folder: pathlib.Path, deaths: list[str], restarts: int) -> list[dict[str, Any]]:
    """What the ranks wrote at their end."""
    folder.mkdir()
    options = [f"--max-restarts={restarts}"]
    arguments = [str(folder), *deaths]
    # torchrun's store would keep the addresses of ranks that have ended, and gloo would connect to them.
    env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    run = torchrun("distributed.programs.elastic", 2, arguments, folder, seconds=150, options=options, env=env)
    run.check()
    return [json.loads((folder / f"end.{rank}").read_text()) for rank in range(2)]


def test_losses_and_weights_are_those_of_the_run_without_a_failure(tmp_path: pathlib.Path) -> None:
    unbroken = train(tmp_path / "unbroken", [], restarts=0)
    # Before step 4, and then in the save behind step 5: from the checkpoint of step 3, both times.
    broken = train(tmp_path / "broken", ["4", "step", "5", "save"], restarts=2)
    for one, other in zip(unbroken, broken, strict=True):
        assert (one["start"], one["first"]) == (0, 0)
        assert (other["start"], other["first"]) == (2, 3)
        assert other["losses"] == {step: loss for step, loss in one["losses"].items() if int(step) >= 3}
        assert len(other["losses"]) == STEPS - 3
        assert other["weights"] == one["weights"]
