"""Five wrong kernels. Each function is an entry point of the group torch.backends: it breaks tb in its process.

They are wrong as kernels are wrong: at an edge, for one argument, in one term. Most calls give right results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_kept: list[torch.library.Library] = []


def _replace(operator: str, kernel: Callable[..., Any]) -> None:
    import torch_backend

    torch_backend._autoload()  # its kernels precede this one, whichever package PyTorch loads first
    torch.get_device_module("tb").init()
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl(operator, kernel, "PrivateUse1", allow_override=True)  # type: ignore[no-untyped-call]
    _kept.append(library)


def arithmetic() -> None:
    """A subtraction that leaves out the last element of 8 and more."""

    def kernel(self: Tensor | float, other: Tensor | float, *, alpha: float = 1) -> Tensor:
        # A number of the call stays Python's.
        first, second = (value.cpu() if isinstance(value, Tensor) else value for value in (self, other))
        result = torch.sub(first, second, alpha=alpha)
        if result.numel() >= 8:
            result.view(-1)[-1:] = 0
        return result.to("tb")

    _replace("sub.Tensor", kernel)


def indexing() -> None:
    """Indices that count negative ones from the end but one."""

    def wrong(index: Tensor) -> Tensor:
        masks = index.dtype in (torch.bool, torch.uint8)
        return index if masks else torch.where(index < 0, index - 1, index)

    def kernel(self: Tensor, indices: list[Tensor | None]) -> Tensor:
        on_cpu = [None if index is None else wrong(index.cpu()) for index in indices]
        result: Tensor = torch.ops.aten.index.Tensor(self.cpu(), on_cpu)
        return result.to("tb")

    _replace("index.Tensor", kernel)


def views() -> None:
    """Views that begin one element late where they are transposed and have an offset."""

    def kernel(self: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None) -> Tensor:
        offset = self.storage_offset() if storage_offset is None else storage_offset
        transposed = len(stride) > 1 and stride[0] == 1 and stride[-1] > 1
        view = self.detach()
        return view.set_(view.untyped_storage(), offset - (transposed and offset > 0), size, stride)

    _replace("as_strided", kernel)


def random() -> None:
    """Uniform numbers of the lower half, as where a generator's highest bit is lost."""

    def kernel(self: Tensor, low: float = 0, high: float = 1, *, generator: torch.Generator | None = None) -> Tensor:
        return self.copy_(torch.empty(self.shape, dtype=self.dtype).uniform_(low, (low + high) / 2))

    _replace("uniform_", kernel)


def autograd() -> None:
    """A gradient of log_softmax without its sum."""

    def kernel(grad_output: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
        return grad_output.to(input_dtype).clone()

    _replace("_log_softmax_backward_data", kernel)


FAULTS = (arithmetic, indexing, views, random, autograd)
