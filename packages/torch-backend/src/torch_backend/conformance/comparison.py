"""Comparison of a device's result with the CPU's: structure, device, dtype, shape, strides, values, bits.

Values agree within the default tolerances of torch.testing for their dtype (NaN equals NaN); derivatives also within
four relative tolerances of the largest derivative. If a result is so ill-conditioned that the CPU's own result changes
by more when its arguments change in their last bit, four times that change is allowed. The tensors that are
bit-identical are counted as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

from torch_backend.conformance.bits import bit_identical
from torch_backend.conformance.case import Observation


def flatten(value: Any) -> list[Any]:
    """The leaves of a result, named tuples and packed sequences taken apart."""
    leaves = []
    for leaf in pytree.tree_leaves(value, is_leaf=lambda inner: isinstance(inner, PackedSequence)):
        leaves += [leaf.data, leaf.batch_sizes] if isinstance(leaf, PackedSequence) else [leaf]
    return leaves


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def significant_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of the dimensions with more than one element; other strides have no effect."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)


def _absolute_tolerance(leaves: list[Any], dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute tolerance for results in which terms cancel; the largest term sets the absolute one."""
    rtol, atol = default_tolerances(dtype)
    # In double precision: not every dtype has abs.
    wide = [
        on_cpu(leaf).to(torch.complex128 if leaf.is_complex() else torch.float64) for leaf in leaves if _sized(leaf)
    ]
    sizes = [tensor.abs().nan_to_num(0.0, 0.0).max() for tensor in wide]
    return rtol, max([atol, *(4 * rtol * float(size) for size in sizes)])


def _sized(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
        return False
    return leaf.is_floating_point() or leaf.is_complex()


def _tensor(
    expected: torch.Tensor,
    actual: torch.Tensor,
    device: torch.device,
    values: bool,
    strides: bool,
    cancelling: list[Any] | None,
    movement: Callable[[], float],
) -> tuple[str | None, bool]:
    """The problem with a tensor, and whether it is bit-identical to the CPU's."""
    if actual.device.type != device.type and expected.device.type == "cpu":
        return f"the result is on {actual.device}, not on {device}", False
    for name in ("dtype", "shape", "layout"):
        if getattr(expected, name) != getattr(actual, name):
            return f"{name} is {getattr(actual, name)}; the CPU gives {getattr(expected, name)}", False
    if strides and expected.layout == torch.strided:
        wanted, given = significant_strides(expected), significant_strides(actual)
        if wanted != given:
            return (
                f"strides of shape {tuple(expected.shape)} are {tuple(actual.stride())}; "
                f"the CPU gives {tuple(expected.stride())}"
            ), False
    if not values:
        return None, False
    reference, result = on_cpu(expected), on_cpu(actual)
    if bit_identical(reference, result):
        return None, True
    tolerances = default_tolerances if cancelling is None else partial(_absolute_tolerance, cancelling)
    problem = _difference(reference, result, *tolerances(reference.dtype))
    if problem and _sized(reference):
        rtol, atol = tolerances(reference.dtype)
        if _difference(reference, result, rtol, max(atol, 4 * movement())) is None:
            return None, False
    return problem, False


def _difference(reference: torch.Tensor, result: torch.Tensor, rtol: float, atol: float) -> str | None:
    try:
        torch.testing.assert_close(result, reference, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return "values differ: " + " ".join(str(error).split())
    return None


def _movement(expected: Any, index: int, nudged: Sequence[Callable[[], Any]]) -> float:
    """The largest change of this result on the CPU in calls whose arguments differ in the last bit."""
    reference = on_cpu(flatten(expected)[index])
    furthest = 0.0
    for call in nudged:
        try:
            moved = on_cpu(flatten(call())[index])
        except RuntimeError:  # for example, a matrix is no longer exactly symmetric
            continue
        wide = torch.complex128 if reference.is_complex() else torch.float64
        distance = (moved.to(wide) - reference.to(wide)).abs()
        furthest = max(furthest, float(distance[distance.isfinite()].max()) if distance.isfinite().any() else 0.0)
    return furthest


def compare(
    expected: Any,
    actual: Any,
    device: torch.device,
    *,
    values: bool = True,
    strides: bool = False,
    cancelling: bool = False,
    nudged: Sequence[Callable[[], Any]] = (),
) -> Observation:
    """Compares two results leaf by leaf; stops at the first problem.

    `nudged` are calls on the CPU with arguments that differ in their last bit; they are made only if values differ.
    `cancelling` is for derivatives: sums in which terms cancel, in an order that depends on the autograd threads.
    """
    wanted, given = flatten(expected), flatten(actual)
    if len(wanted) != len(given):
        return Observation(problem=f"{len(given)} results; the CPU gives {len(wanted)}")
    observation = Observation()
    for index, (one, other) in enumerate(zip(wanted, given, strict=True)):
        place = f"result {index}: " if len(wanted) > 1 else ""
        if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
            observation.problem = f"{place}is {type(other).__name__}; the CPU gives {type(one).__name__}"
        elif isinstance(one, torch.Tensor):
            problem, equal = _tensor(
                one,
                other,
                device,
                values,
                strides,
                wanted if cancelling else None,
                partial(_movement, expected, index, nudged),
            )
            observation.tensors += values
            observation.equal_bits += equal
            observation.problem = place + problem if problem else None
        elif isinstance(one, (bool, int, float, complex)) and values:
            problem = None if _same_number(one, other) else f"{place}is {other!r}; the CPU gives {one!r}"
            observation.problem = problem
        elif isinstance(one, (str, torch.dtype, torch.Size, type(None))) and one != other:
            observation.problem = f"{place}is {other!r}; the CPU gives {one!r}"
        if observation.problem:
            return observation
    return observation


def _same_number(one: complex, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    try:
        torch.testing.assert_close(other, one, equal_nan=True)
    except AssertionError:
        return False
    return True
