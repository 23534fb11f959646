"""Generator.philox_state: kernels of others draw from the sequence of a tb generator, also in captured graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_backend.device_module as tb
from torch import Generator, Tensor
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 0x9E3779B97F4A7C15  # both halves count
OFFERED = hasattr(Generator, "philox_state")
WORD = 0xFFFFFFFF
TO_THE_END = 2**64 - 1


def philox_state(generator: Generator, increment: int) -> tuple[Tensor, Tensor, Tensor]:
    """What Generator.philox_state returns. PyTorch 2.13 lacks it; there the same comes from the operator below."""
    reserve: Any = getattr(generator, "philox_state", None)
    if OFFERED:
        seed, offset, intragraph = reserve(increment)
        return seed, offset, intragraph
    assert reserve is None
    at_launch, start_seed, start = torch.ops.tb.reserve_random(generator, -(-increment // 4))
    if at_launch is not None:
        return at_launch[:1], at_launch[1:], torch.tensor([start])
    return torch.tensor([start_seed]), torch.tensor([start]), torch.tensor([0])


def product(factor: int, values: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low 32 bits of the products with 32-bit numbers."""
    high = ((factor >> 16) * values + ((factor & 0xFFFF) * values >> 16)) >> 16
    return high & WORD, factor * values & WORD


def words(seed: Tensor, offset: Tensor, intragraph: Tensor, count: int) -> Tensor:
    """The Philox4x32-10 words that a kernel with one thread and this state draws, on the device of seed and offset."""
    first = (offset + intragraph.item() >> 2) & (1 << 62) - 1
    position = first + torch.arange(-(-count // 4), device=offset.device)
    zero = torch.zeros_like(position)
    counter = [position & WORD, position >> 32 & WORD, zero, zero]
    key = [seed & WORD, seed >> 32 & WORD]
    for _ in range(10):
        high0, low0 = product(0xD2511F53, counter[0])
        high1, low1 = product(0xCD9E8D57, counter[2])
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [key[0] + 0x9E3779B9 & WORD, key[1] + 0xBB67AE85 & WORD]
    return torch.stack(counter, 1).flatten()[:count]


def unsigned(value: Tensor) -> int:
    return int(value.item()) & TO_THE_END


def as_uniform(drawn: Tensor) -> Tensor:
    return (drawn >> 8).to(torch.float32) * 2.0**-24


def uniform(generator: Generator, count: int) -> Tensor:
    """The numbers that torch.rand draws, by the kernel above."""
    return as_uniform(words(*philox_state(generator, count), count))


def rand(generator: Generator, count: int) -> Tensor:
    return torch.rand(count, device="tb", generator=generator)


def seeded() -> Generator:
    generator = torch.Generator("tb")
    generator.manual_seed(SEED)
    return generator


def test_the_state_is_that_of_the_next_numbers() -> None:
    drawing, reserving = seeded(), seeded()
    for count in (1, 4, 5, 1000, 3):
        expected = rand(drawing, count)
        assert bit_identical(uniform(reserving, count), expected.cpu())
        assert reserving.get_offset() == drawing.get_offset()
        assert bit_identical(rand(reserving, 7), rand(drawing, 7))


def test_the_values_are_one_integer_each_in_words_of_the_sequence() -> None:
    generator = seeded()
    for increment, start in ((3, 0), (0, 4), (9, 4), (1, 16)):
        seed, offset, intragraph = philox_state(generator, increment)
        assert [(value.dtype, value.shape, value.device.type) for value in (seed, offset, intragraph)] == [
            (torch.int64, (1,), "cpu")
        ] * 3
        assert (unsigned(seed), offset.item(), intragraph.item()) == (SEED, start, 0)
    assert 4 * generator.get_offset() == 20


def test_offsets_end_where_those_of_pytorch_do() -> None:
    generator = seeded()
    generator.set_offset(2**62 - 1)
    assert unsigned(philox_state(generator, 1)[1]) == 2**64 - 4
    if OFFERED:
        assert generator.get_offset() == 0  # modulo 2**64 words
        philox_state(generator, 8)
        philox_state(generator, TO_THE_END)
        assert philox_state(generator, 0)[1].item() == 8
        with pytest.raises(OverflowError):
            philox_state(generator, -1)
    generator.set_offset(2**62)
    with pytest.raises(RuntimeError, match=r"PyTorch's offsets end at 2\*\*64 words"):
        philox_state(generator, 1)


@pytest.mark.parametrize("default", [False, True], ids=["explicit", "default"])
def test_replays_draw_what_eager_steps_do(default: bool) -> None:
    generator = tb.default_generators[0] if default else torch.Generator("tb")

    def step() -> list[Tensor]:
        return [rand(generator, 5), uniform(generator, 10), rand(generator, 3), uniform(generator, 6)]

    generator.manual_seed(SEED)
    expected = [[value.cpu() for value in step()] for _ in range(3)]
    end = generator.get_state()
    there = torch.tensor([3], device="tb")
    for count in (10, 6):  # kernels run once before a capture
        as_uniform(words(there, there, torch.tensor([4]), count))
    generator.manual_seed(SEED)
    before = generator.get_state()
    graph = tb.Graph()
    with tb.graph(graph):
        drawn = step()
        seed, offset, intragraph = philox_state(generator, 0)
        assert [value.device.type for value in (seed, offset, intragraph)] == ["tb", "tb", "cpu"]
    assert bit_identical(generator.get_state(), before)
    for number, values in enumerate(expected):
        graph.replay()
        for value, wanted in zip(drawn, values, strict=True):
            assert bit_identical(value.cpu(), wanted)
        assert (offset.item() + intragraph.item(), unsigned(seed)) == (32 * (number + 1), SEED)
    assert bit_identical(generator.get_state(), end)


def test_a_seed_before_a_replay_reaches_the_kernel() -> None:
    generator = seeded()
    graph = tb.Graph()
    with tb.graph(graph):
        seed, offset, _ = philox_state(generator, 4)
    for start in (7, 2**64 - 1):
        generator.manual_seed(start)
        graph.replay()
        graph.replay()
        assert (unsigned(seed), offset.item()) == (start, 4)


def test_beside_a_capture_the_state_is_that_of_now_and_not_the_capture_s() -> None:
    captured, other = seeded(), seeded()
    aside = tb.Stream()
    graph = tb.Graph()
    with tb.graph(graph):
        philox_state(captured, 4)
        with tb.stream(aside):
            assert [value.device.type for value in philox_state(other, 4)] == ["cpu"] * 3
            with pytest.raises(RuntimeError, match="drawn from in a capture that is in progress"):
                philox_state(captured, 4)
    assert other.get_offset() == 1
    assert captured.get_offset() == 0
