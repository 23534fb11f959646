"""Every kernel case can be captured, and each replay computes from the inputs as they are then."""

from __future__ import annotations

import ops.cases.bags
import ops.cases.layers
import ops.cases.lists
import ops.cases.operators
import ops.cases.results  # noqa: F401
import pytest
import torch
import torch_backend.device_module as tb
from ops.cases.case import CASES, Source, assert_same
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("one_thread")


class Prepared(Source):
    """Gives the same tensors to every run of a case: those of the first."""

    def __init__(self) -> None:
        super().__init__("tb")
        self.made: list[tuple[torch.Tensor, torch.Tensor]] = []  # on tb, and as it was, on the CPU
        self.next = 0

    def give(self, value: torch.Tensor) -> torch.Tensor:
        if self.next == len(self.made):
            self.made.append((value.to("tb"), value))
        self.next += 1
        return self.made[self.next - 1][0]

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
        made = self.give(torch.randn(shape, generator=self.generator).to(dtype))
        return made.requires_grad_() if grad else made

    def integers(self, high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return self.give(torch.randint(low, high, shape, generator=self.generator).to(dtype))

    def mask(self, *shape: int) -> torch.Tensor:
        return self.give(torch.randn(shape, generator=self.generator) > 0)

    def restore(self) -> None:
        """All as it was before a case changed it, for the next run."""
        self.next = 0
        with torch.no_grad():
            for here, before in self.made:
                here.detach().copy_(before)


def captured(name: str) -> bool:
    """False: the case waits, as some do by their nature, and the capture said so."""
    source = Prepared()
    for _ in range(2):  # warm-up
        CASES[name](source)
        source.restore()
    graph = tb.Graph()
    try:
        with tb.graph(graph):
            result = CASES[name](source)
    except RuntimeError as error:
        if "inside a capture" not in str(error):
            raise
        return False
    for _ in range(2):
        source.restore()
        graph.replay()
        assert_same(CASES[name](Source("cpu")), result)
    return True


def test_replays_give_what_stock_cpu_gives() -> None:
    """Some cases make tensors from numbers of the host or wait by their nature: those refuse, with a text."""
    refused = [name for name in CASES if not captured(name)]
    assert len(refused) <= len(CASES) // 3, refused


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
    """Forward and backward, both launched by the calling thread."""
    operators = torch.ops.aten
    out, sums = operators._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, True)
    backward = operators._scaled_dot_product_flash_attention_for_cpu_backward
    return [out, *backward(grad, query, key, value, out, sums, 0.0, True)]


def test_attention_on_intra_op_threads_has_the_bits_of_one_thread() -> None:
    """Replays measure one thread and all intra-op threads, so that some run with either."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(8, 4, 128, 16, generator=generator) for _ in range(4)]
    expected = attention(*values)
    given = [tensor.to("tb") for tensor in values]
    torch.set_num_threads(2)  # the fixture sets it back
    attention(*given)
    graph = tb.Graph()
    with tb.graph(graph):
        results = attention(*given)
    for _ in range(12):
        graph.replay()
        for result, wanted in zip(results, expected, strict=True):
            assert bit_identical(result.cpu(), wanted)
