"""The kernel cases can be captured, and each replay reads the inputs that are current at its time."""

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
    """Gives every run of a case the tensors of its first run."""

    def __init__(self) -> None:
        super().__init__("tb")
        self.made: list[tuple[torch.Tensor, torch.Tensor]] = []  # (tensor on tb, its original values on the CPU)
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
        """Restores the original values for the next run of the case."""
        self.next = 0
        with torch.no_grad():
            for here, before in self.made:
                here.detach().copy_(before)


def captured(name: str) -> bool:
    """Captures a case and checks its replays. False: the case has to wait, and the capture refused it."""
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
    """Some cases copy numbers from the host or wait by their meaning. A capture refuses those."""
    refused = [name for name in CASES if not captured(name)]
    assert len(refused) <= len(CASES) // 3, refused


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
    """The forward and the backward operator, both called directly."""
    operators = torch.ops.aten
    out, sums = operators._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, True)
    backward = operators._scaled_dot_product_flash_attention_for_cpu_backward
    return [out, *backward(grad, query, key, value, out, sums, 0.0, True)]


def test_attention_on_intra_op_threads_is_bit_identical_to_one_thread() -> None:
    """Replays time one thread and all intra-op threads, so some replays use each."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(8, 4, 128, 16, generator=generator) for _ in range(4)]
    expected = attention(*values)
    given = [tensor.to("tb") for tensor in values]
    torch.set_num_threads(2)  # the fixture restores it
    attention(*given)
    graph = tb.Graph()
    with tb.graph(graph):
        results = attention(*given)
    for _ in range(12):
        graph.replay()
        for result, wanted in zip(results, expected, strict=True):
            assert bit_identical(result.cpu(), wanted)
