"""Random operators: found by a rule, compared by shape, dtype and statistics.

The rule: the call draws from the CPU's generator, and one of a few other seeds changes the result. The database marks
operators that do not initialise their memory (`has_nondeterministic_output`). No list is kept by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_backend.conformance.bits import bit_identical
from torch_backend.conformance.case import Observation
from torch_backend.conformance.comparison import flatten, on_cpu
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import Outcome, agree, attempt

SEED = 20_250
CPU = Device("cpu")
# A random pooling region in a small image has few possible outcomes, so one other seed is not enough.
OTHER_SEEDS = 8

# With 16 draws on each side, the means of equal distributions differ by more once in about a million comparisons.
STANDARD_ERRORS = 6.0


def reference(call: Callable[[], Any]) -> tuple[Outcome, bool]:
    """The CPU's outcome of a call that makes its own new arguments, and whether it depends on the generator."""
    CPU.seed(SEED)
    before = torch.get_rng_state()
    first = attempt(CPU, call)
    if first.error is not None or torch.equal(before, torch.get_rng_state()):
        return first, False
    for seed in range(SEED + 1, SEED + 1 + OTHER_SEEDS):
        CPU.seed(seed)
        second = attempt(CPU, call)
        if second.error is not None or not same(first.value, second.value):
            return first, True
    return first, False


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal bit by bit."""
    leaves = [flatten(one), flatten(other)]
    if len(leaves[0]) != len(leaves[1]):
        return False
    return all(bit_identical(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(*leaves, strict=True))


def agree_statistically(
    expected: Outcome, cpu_call: Callable[[], Any], device_call: Callable[[], Any], device: Device, repeats: int
) -> Observation:
    """Compares a random call: metadata, equal draws for equal seeds, and means over independent draws."""
    draws: dict[str, list[list[float]]] = {"cpu": [], "device": []}
    for repeat in range(repeats):
        device.seed(SEED + repeat)
        actual = attempt(device, device_call)
        observation = agree(expected, actual, device, values=False)
        if observation.problem or observation.vacuous:
            return observation
        if repeat == 0:
            device.seed(SEED)
            again = attempt(device, device_call)
            if again.error is None and not same(
                [on_cpu(t) if isinstance(t, torch.Tensor) else t for t in flatten(actual.value)],
                [on_cpu(t) if isinstance(t, torch.Tensor) else t for t in flatten(again.value)],
            ):
                return Observation(problem="the same seed gives two different results on the device")
        CPU.seed(SEED + repeat)
        drawn = attempt(CPU, cpu_call)
        draws["device"].append(_statistics(actual.value))
        draws["cpu"].append(_statistics(drawn.value))
    problem = _differ(draws["cpu"], draws["device"])
    return Observation(problem=problem)


def _statistics(value: Any) -> list[float]:
    """The mean and the mean square of x / (1 + |x|) of each tensor, which are bounded also for long tails."""
    found: list[float] = []
    for leaf in flatten(value):
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            continue
        tensor = on_cpu(leaf)
        tensor = torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.to(torch.float64)
        squashed = torch.nan_to_num(tensor / (1 + tensor.abs()), nan=2.0)  # the number of NaN counts too
        found += [float(squashed.mean()), float(squashed.square().mean())] if tensor.numel() else [0.0, 0.0]
    return found


def _differ(cpu: list[list[float]], device: list[list[float]]) -> str | None:
    """Welch's comparison of every statistic. The draws are independent; the elements of one draw need not be."""
    if len({len(draw) for draw in cpu + device}) != 1:
        return "the number of results changes from draw to draw"
    count = len(cpu)
    for index, (one, other) in enumerate(zip(zip(*cpu, strict=True), zip(*device, strict=True), strict=True)):
        means = [sum(values) / count for values in (one, other)]
        variances = [
            sum((value - mean) ** 2 for value in values) / max(count - 1, 1)
            for values, mean in zip((one, other), means, strict=True)
        ]
        # 1e-3: if the few draws nearly coincide, their variance is a poor estimate.
        allowed = STANDARD_ERRORS * math.sqrt(sum(variances) / count) + 1e-3
        if abs(means[0] - means[1]) > allowed:
            statistic = "mean square" if index % 2 else "mean"
            return (
                f"the {statistic} of result {index // 2} over {count} draws is {means[1]:.4g}; "
                f"the CPU's is {means[0]:.4g} (squashed by x/(1+|x|), at most {allowed:.2g} apart)"
            )
    return None
