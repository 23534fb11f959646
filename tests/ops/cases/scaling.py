"""Cases of GradScaler's two operators."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from ops.cases.case import Source, case


@case
def unscaled_gradients(source: Source) -> list[Any]:
    found = []
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    for dtype, bad in itertools.product(kinds, [0.0, math.inf, -math.inf, math.nan]):
        gradients = [
            source.randn(7, 33, dtype=dtype),
            source.randn(64, 10, dtype=dtype).t(),
            source.randn(0, dtype=dtype),
        ]
        gradients[1][3, 4] = bad
        found_inf = torch.zeros((), device=source.device)
        inverse = torch.full((1,), 1 / 3, device=source.device)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse)
        found += [gradients, found_inf]
    return found


@case
def updated_scale(source: Source) -> list[Any]:
    found = []
    for scale, tracker, overflow in itertools.product([1.0, 65536.0, 3e38, 1e-45], [0, 3, 4], [0.0, 1.0]):
        state = torch.full((), scale, device=source.device), torch.full((), tracker, device=source.device).int()
        found_inf = torch.full((), overflow, device=source.device)
        returned = torch._amp_update_scale_(*state, found_inf, 2.5, 0.3, 5)
        found += [*state, returned]
    return found
