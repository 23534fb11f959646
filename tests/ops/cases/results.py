"""Cases of the properties of results: out= of another type, memory formats, conjugate bits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ops.cases.case import Source, case


@case
def logical_into_another_type(source: Source) -> Any:
    x, y, mask = source.randn(4, 5), source.randn(5), source.mask(4, 5)
    operators = (torch.logical_and, torch.logical_or, torch.logical_xor)
    wide = [op(x, y > 0, out=torch.empty(0, dtype=torch.float64, device=source.device)) for op in operators]
    return wide, [op(mask, mask[0], out=torch.empty(0, dtype=torch.int32, device=source.device)) for op in operators]


@case
def mode(source: Source) -> Any:
    x = source.integers(3, 4, 5)
    out = (torch.empty(0, dtype=x.dtype, device=source.device), torch.empty(0, dtype=torch.int64, device=source.device))
    torch.mode(x, 0, out=out)
    return tuple(x.mode(1, keepdim=True)), out, tuple(x[0, 0].float().mode())


@case
def addr_rounds_once(source: Source) -> Any:
    half = [source.randn(*shape).bfloat16() for shape in ((50, 60), (50,), (60,))]
    return torch.addr(*half, beta=0.6, alpha=0.2), torch.addr(*half, beta=0)


@case
def padding_channels_last(source: Source) -> Any:
    image = source.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    volume = source.randn(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    out = torch.empty(2, 3, 6, 8, device=source.device)
    torch.ops.aten.replication_pad2d.out(image, (1, 2, 1, 1), out=out)
    return (
        out,
        F.pad(image, (1, 2, -1, 1), "replicate"),
        F.pad(volume, (1, 0, 2, 1, 1, 1), "replicate"),
        F.pad(volume, (1, 0, 2, 1, 1, 1), "reflect"),
        F.pad(image[0], (1, 1, 1, 1), "replicate"),
    )


@case
def pixel_shuffle_channels_last(source: Source) -> Any:
    image = source.randn(2, 12, 4, 6).contiguous(memory_format=torch.channels_last)
    shuffled = F.pixel_shuffle(image, 2)
    return shuffled, F.pixel_unshuffle(shuffled, 2), F.pixel_shuffle(image.contiguous(), 2)


@case
def max_pool1d_without_derivatives(source: Source) -> Any:
    return F.max_pool1d(source.randn(2, 6, 3).mT, 2)


@case
def lazily_conjugated_result(source: Source) -> Any:
    """The CPU's linalg.lu_solve conjugates its result by setting the conjugate bit."""
    x = torch.view_as_complex(source.randn(3, 3, 2))
    factors, pivots = torch.linalg.lu_factor(x)
    return torch.linalg.lu_solve(factors, pivots, torch.view_as_complex(source.randn(4, 3, 2)), left=False)
