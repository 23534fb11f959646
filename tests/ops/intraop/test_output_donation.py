"""CPU operators allocate their results in tb's memory. The results are bit-identical to copied ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch_backend  # noqa: F401
from ops.threads import one_thread
from tb_ops import _testing
from torch_backend.conformance.bits import bit_identical

LARGE = 4096


def place(wanted: list[torch.Tensor], make: Callable[[], list[torch.Tensor]]) -> tuple[int, int]:
    """Runs `make` with output donation; returns the bytes that were allocated in place and those that were copied."""
    torch.accelerator.synchronize()
    before = _testing.donated_bytes()
    _testing.donate(wanted, make)
    after = _testing.donated_bytes()
    return after[0] - before[0], after[1] - before[1]


def wanted_pair() -> list[torch.Tensor]:
    return [torch.full((64, 64), -1.0), torch.full((64, 64), -2.0)]


def test_a_result_is_allocated_in_the_donated_memory() -> None:
    wanted = torch.full((64, 64), -1.0)
    made = []

    def make() -> list[torch.Tensor]:
        made.append(torch.arange(LARGE, dtype=torch.float32).view(64, 64).mul(2))
        return [made[0]]

    # arange() takes the donated memory first, so the product is allocated elsewhere and copied
    assert place([wanted], make) == (0, wanted.nbytes)
    assert bit_identical(wanted, made[0])

    def fill() -> list[torch.Tensor]:
        made[0] = torch.empty(64, 64).fill_(3)
        return [made[0]]

    assert place([wanted], fill) == (wanted.nbytes, 0)
    assert made[0].data_ptr() == wanted.data_ptr()
    assert bit_identical(wanted, torch.full((64, 64), 3.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(64, 64),
        lambda: torch.empty_strided((64, 64), (64, 1)),
        lambda: torch.empty(0).resize_(64, 64),
        lambda: torch.zeros(64, 64),
        lambda: torch.empty_like(torch.empty(64, 64, dtype=torch.float64), dtype=torch.float32),
    ],
    ids=["empty", "empty_strided", "resize_", "zeros", "empty_like"],
)
def test_every_way_to_allocate_a_tensor_uses_the_donated_memory(make: Callable[[], torch.Tensor]) -> None:
    wanted = torch.full((64, 64), -1.0)
    assert place([wanted], lambda: [make().fill_(5)]) == (wanted.nbytes, 0)
    assert bit_identical(wanted, torch.full((64, 64), 5.0))


def test_results_allocated_in_each_others_memory_are_copied() -> None:
    wanted = wanted_pair()

    def swapped() -> list[torch.Tensor]:
        second = torch.empty(64, 64).fill_(2)
        first = torch.empty(64, 64).fill_(1)
        return [first, second]

    assert place(wanted, swapped) == (0, 2 * wanted[0].nbytes)
    assert bit_identical(wanted[0], torch.full((64, 64), 1.0))
    assert bit_identical(wanted[1], torch.full((64, 64), 2.0))


def test_a_result_with_other_strides_is_copied() -> None:
    wanted = [torch.empty(64, 64)]
    numbers = torch.arange(LARGE, dtype=torch.float32).view(64, 64)

    def transposed() -> list[torch.Tensor]:
        return [torch.empty(64, 64).copy_(numbers).t()]

    assert place(wanted, transposed) == (0, wanted[0].nbytes)
    assert bit_identical(wanted[0], numbers.t())


def test_a_result_that_is_returned_twice_is_copied_once() -> None:
    wanted = wanted_pair()

    def twice() -> list[torch.Tensor]:
        result = torch.empty(64, 64).fill_(4)
        return [result, result]

    assert place(wanted, twice) == (wanted[0].nbytes, wanted[1].nbytes)
    assert all(bit_identical(tensor, torch.full((64, 64), 4.0)) for tensor in wanted)


def test_other_threads_and_later_tensors_do_not_get_donated_memory() -> None:
    wanted = [torch.full((64, 64), -1.0)]
    others: list[torch.Tensor] = []

    def make() -> list[torch.Tensor]:
        thread = threading.Thread(target=lambda: others.append(torch.empty(64, 64).fill_(7)))
        thread.start()
        thread.join()
        return [torch.empty(64, 64).fill_(8)]

    assert place(wanted, make) == (wanted[0].nbytes, 0)
    assert others[0].data_ptr() != wanted[0].data_ptr()
    assert torch.empty(64, 64).data_ptr() != wanted[0].data_ptr()

    def fail() -> list[torch.Tensor]:
        raise ValueError("none made")

    with pytest.raises(ValueError, match="none made"):
        place(wanted, fail)
    assert torch.empty(64, 64).data_ptr() != wanted[0].data_ptr()


def on_both(run: Callable[[torch.device], list[torch.Tensor]]) -> tuple[int, int]:
    """Checks that tb is bit-identical to stock cpu; returns the bytes in place and copied bytes of tb's second call."""
    device = torch.device("tb")
    run(device)  # the first call fills the layout cache
    torch.accelerator.synchronize()
    before = _testing.donated_bytes()
    found = run(device)
    torch.accelerator.synchronize()
    after = _testing.donated_bytes()
    with one_thread():
        expected = run(torch.device("cpu"))
    for ours, theirs in zip(found, expected, strict=True):
        assert bit_identical(ours.cpu(), theirs)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [8, 3])
def test_convolutions_copy_no_result(layout: torch.memory_format, channels: int) -> None:
    def run(device: torch.device) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        image = torch.randn(2, channels, 12, 12, generator=generator).to(device, memory_format=layout)
        weight = torch.randn(8, channels, 3, 3, generator=generator).to(device)
        bias = torch.randn(8, generator=generator).to(device)
        return [torch.nn.functional.conv2d(image, weight, bias)]

    placed, copied = on_both(run)
    assert placed == 2 * 8 * 10 * 10 * 4
    assert copied == 0


def test_gradients_of_convolutions_copy_little() -> None:
    def run(device: torch.device) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        image = torch.randn(4, 6, 20, 20, generator=generator).to(device).requires_grad_()
        weight = torch.randn(8, 6, 3, 3, generator=generator).to(device).requires_grad_()
        bias = torch.randn(8, generator=generator).to(device).requires_grad_()
        loss = torch.nn.functional.conv2d(image, weight, bias).square().mean()
        return list(torch.autograd.grad(loss, [image, weight, bias]))

    placed, copied = on_both(run)
    assert placed > 4 * 6 * 20 * 20 * 4
    assert copied <= (8 * 6 * 3 * 3 + 8) * 4


def test_a_recurrent_layer_copies_little() -> None:
    """The layer is oneDNN's, which nn.LSTM uses for types and processors for which tb has no layers of its own."""
    torch.manual_seed(1)
    inputs, weights, biases = torch.randn(9, 4, 24), torch.randn(160, 24 + 40), torch.randn(2, 160)
    state = torch.randn(2, 4, 40)

    def run(device: torch.device) -> list[torch.Tensor]:
        x, (hidden, cell), (input_bias, hidden_bias) = (given.to(device) for given in (inputs, state, biases))
        by_input, by_hidden = (part.to(device).contiguous() for part in (weights[:, :24], weights[:, 24:]))
        with torch.no_grad():
            results = torch.ops.aten.mkldnn_rnn_layer(
                x, by_input, by_hidden, input_bias, hidden_bias, hidden, cell,
                False, [], 2, 40, 1, True, False, False, False,
            )  # fmt: skip
        return list(results[:3])

    placed, copied = on_both(run)
    assert placed > 4 * copied


def test_the_gradient_of_an_embedding_copies_nothing() -> None:
    def run(device: torch.device) -> list[torch.Tensor]:
        weight = torch.arange(300.0).view(100, 3).to(device).requires_grad_()
        chosen = torch.tensor([[3, 3, 99], [0, 5, 3]]).to(device)
        return list(torch.autograd.grad(torch.nn.functional.embedding(chosen, weight).sum(), [weight]))

    assert on_both(run) == (1200, 0)
