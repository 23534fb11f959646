"""Every family of models trains on tb without a fallback, and its losses are those of stock CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from examples.demo.comparison import philox_masks
from examples.demo.model import LanguageModel
from examples.models.case import OPTIMIZERS, Training
from training.families import FAMILIES, SEED

STEPS = 20
OWN_ORDER = {"lstm"}  # families whose kernels on tb add in a different order


def losses(family: str, optimizer: str, device: str) -> list[float]:
    """The losses of STEPS steps, which are read at the end, so that tb does not wait between steps."""
    torch.manual_seed(SEED)
    case = replace(FAMILIES[family](), optimizer=OPTIMIZERS[optimizer])
    if isinstance(case.model, LanguageModel) and device == "cpu":
        case.model.set_mask_source(philox_masks(SEED))
    training = Training(case, torch.device(device))
    torch.manual_seed(SEED)
    return [loss.item() for loss in [training.step() for _ in range(STEPS)]]


def without_fallbacks(run: Callable[[], list[float]]) -> list[float]:
    tb: Any = torch.tb  # type: ignore[attr-defined]
    with tb.fallback_budget(0):
        return run()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_losses_are_bit_identical_to_stock_cpu(family: str, optimizer: str) -> None:
    """With one thread the same kernels add in the same order on both sides, except for tb's own float LSTM layers."""
    on_tb = without_fallbacks(lambda: losses(family, optimizer, "tb"))
    on_cpu = losses(family, optimizer, "cpu")
    assert on_tb == (pytest.approx(on_cpu, rel=1e-5, abs=0) if family in OWN_ORDER else on_cpu)
    assert on_cpu[-1] < on_cpu[0], "the model does not learn: the comparison would say little"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_losses_are_those_of_stock_cpu_with_all_threads(family: str) -> None:
    """While the host works, tb uses one thread less than stock CPU, so sums may be divided differently."""
    on_tb = without_fallbacks(lambda: losses(family, "adamw_fused", "tb"))
    assert on_tb == pytest.approx(losses(family, "adamw_fused", "cpu"), rel=1e-5, abs=0)


@pytest.mark.usefixtures("one_thread")
def test_other_dropout_masks_would_be_noticed() -> None:
    torch.manual_seed(SEED)
    training = Training(FAMILIES["gpt"](), torch.device("cpu"))
    torch.manual_seed(SEED)
    plain = [training.step().item() for _ in range(STEPS)]
    assert plain != pytest.approx(losses("gpt", "adamw_foreach", "cpu"), rel=1e-5, abs=0)
