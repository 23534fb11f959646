"""`step(function, check=True)` finds what no rule sees, and leaves what is right as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tb_compile
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore


def steps(scale: Callable[[], float], **options: Any) -> tuple[Any, torch.nn.Module, torch.optim.Optimizer]:
    """A step whose loss is multiplied by a number of the host, its model and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).to("tb")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=True)

    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(x).square().mean() * scale()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return tb_compile.step(train, **options), model, optimizer


def run(step: Any, calls: int) -> list[float]:
    return [step(torch.full((3, 4), float(i), device="tb")).item() for i in range(calls)]


def test_a_step_that_is_right_is_launched_and_computes_what_it_does_unchecked() -> None:
    (checked, model, _), (plain, other, _) = steps(lambda: 2.0, check=True), steps(lambda: 2.0)
    torch.manual_seed(1)
    found = run(checked, 10)
    torch.manual_seed(1)
    assert found == run(plain, 10)
    assert checked.replays == plain.replays == 7
    assert checked.refusal == plain.refusal == ""
    for one, another in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, another)


def test_a_number_from_a_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "scale"
    file.write_text("2")
    step, *_ = steps(lambda: float(file.read_text()), check=True)
    run(step, 8)
    assert step.replays == 5, step.refusal
    file.write_text("3")
    with pytest.raises(RuntimeError, match="result 0"):
        run(step, 1)


def test_without_the_check_the_number_stays_as_it_was_captured(tmp_path: Path) -> None:
    """What the page says is inherent; a rule that sees it makes the test above prove nothing."""
    file = tmp_path / "scale"
    file.write_text("2")
    step, model, _ = steps(lambda: float(file.read_text()))
    run(step, 8)
    model.eval()
    run(step, 5)
    before = step.replays
    file.write_text("4")
    run(step, 1)
    assert step.replays == before + 1


def test_a_step_with_distributed_data_parallel_is_the_plain_step() -> None:
    """Its hooks on the accumulation of gradients are a reason to run plain."""
    dist.init_process_group(store=HashStore(), rank=0, world_size=1)
    try:
        found = []
        for wrap in (tb_compile.step, lambda function: function):
            torch.manual_seed(0)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).to("tb"))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            def train(
                x: torch.Tensor, model: torch.nn.Module = model, optimizer: torch.optim.Optimizer = optimizer
            ) -> torch.Tensor:
                optimizer.zero_grad()
                loss: torch.Tensor = model(x).square().mean()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                return loss

            step: Any = wrap(train)
            losses = run(step, 12)
            found.append((losses, [parameter.tolist() for parameter in model.parameters()]))
            if wrap is tb_compile.step:
                assert step.replays == 0
                assert "DistributedDataParallel" in step.refusal
        assert found[0] == found[1]
    finally:
        dist.destroy_process_group()
