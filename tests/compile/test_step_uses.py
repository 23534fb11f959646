"""The table of uses: a step that tb_compile.step wraps is the plain step, and is captured or says why not."""

from __future__ import annotations

from typing import Any

import pytest
import tb_compile
import torch
from compile.step_uses import USES, Use, arguments, host, optimizers, state, ways
from torch_backend.conformance.bits import bit_difference

TABLES = (arguments, host, optimizers, state, ways)


def differences(one: Any, other: Any, tolerance: float, path: str = "") -> list[str]:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if tolerance:
            same = one.shape == other.shape and torch.allclose(one, other, tolerance, tolerance, equal_nan=True)
            return [] if same else [f"{path}: {one} and {other}"]
        found = bit_difference(one, other)
        return [f"{path}: {found}"] if found else []
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return [f"{path}: keys {sorted(map(str, one))} and {sorted(map(str, other))}"]
        return [text for key in one for text in differences(one[key], other[key], tolerance, f"{path}[{key!r}]")]
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return [f"{path}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [text for i, (a, b) in pairs for text in differences(a, b, tolerance, f"{path}[{i}]")]
    same = one == other or (isinstance(one, float) and isinstance(other, float) and one != one and other != other)
    return [] if same and type(one) is type(other) else [f"{path}: {one!r} and {other!r}"]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("one", USES.values(), ids=USES.keys())
def test_a_wrapped_step_is_the_plain_step(one: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tb_compile.Step[Any, Any]] = []  # those of methods too
    make = tb_compile.Step.__init__

    def make_and_note(self: tb_compile.Step[Any, Any], *arguments: Any) -> None:
        make(self, *arguments)
        steps.append(self)

    monkeypatch.setattr(tb_compile.Step, "__init__", make_and_note)
    expected = list(one.program(lambda function: function))
    for call, (right, seen) in enumerate(zip(expected, one.program(tb_compile.step), strict=True)):
        assert not (found := differences(right, seen, one.tolerance)), f"call {call} of {one.name}: {found[:4]}"
    launches = sum(step.replays for step in steps)
    refusals = [step.refusal for step in steps if step.refusal]
    if one.refused:
        assert any(one.refused in refusal for refusal in refusals), f"{launches} launches; {refusals}"
    else:
        assert launches >= 3, refusals


def test_the_table_has_many_uses() -> None:
    assert len(USES) >= 150
