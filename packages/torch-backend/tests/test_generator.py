"""torch.tb: random number generators and their states."""

import pytest
import torch
from conftest import Script
from torch_backend.conformance.bits import bit_identical


def test_the_same_seed_gives_the_same_numbers() -> None:
    torch.manual_seed(3)
    first = torch.rand(100, device="tb")
    second = torch.rand(100, device="tb")
    torch.manual_seed(3)
    assert bit_identical(first, torch.rand(100, device="tb"))
    assert not bit_identical(first, second)
    assert torch.tb.initial_seed() == 3


def test_seeds_set_before_the_first_use_take_effect(script: Script) -> None:
    code = """
    import torch
    torch.manual_seed(1)
    torch.tb.manual_seed_all(11)
    assert not torch.tb.is_initialized()
    early = torch.rand(10, device="tb")
    torch.tb.manual_seed(11)
    assert torch.equal(early, torch.rand(10, device="tb"))
    """
    script(code)


def test_state_round_trip() -> None:
    state = torch.tb.get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert state.numel() == 16
    first = torch.randn(50, device="tb")
    torch.tb.set_rng_state(state)
    assert bit_identical(first, torch.randn(50, device="tb"))
    states = torch.tb.get_rng_state_all()
    second = torch.randn(50, device="tb")
    torch.tb.set_rng_state_all(states)
    assert bit_identical(second, torch.randn(50, device="tb"))


def test_a_wrong_state_is_refused_and_changes_nothing() -> None:
    before = torch.tb.get_rng_state()
    with pytest.raises(ValueError, match="16 bytes, but got 8"):
        torch.tb.set_rng_state(torch.zeros(8, dtype=torch.uint8))
    with pytest.raises(TypeError):
        torch.tb.set_rng_state(torch.zeros(16))
    with pytest.raises((TypeError, RuntimeError)):
        torch.tb.set_rng_state(torch.zeros(32, dtype=torch.uint8)[::2])
    assert bit_identical(before, torch.tb.get_rng_state())


def test_explicit_generators_are_independent() -> None:
    generator = torch.Generator("tb")
    assert generator.device.type == "tb"
    assert generator.initial_seed() == torch.Generator().initial_seed()
    generator.manual_seed(7)
    default = torch.tb.get_rng_state()
    first = torch.rand(20, device="tb", generator=generator)
    assert bit_identical(default, torch.tb.get_rng_state())
    generator.manual_seed(7)
    assert bit_identical(first, torch.rand(20, device="tb", generator=generator))


def test_generator_state_offset_and_copies() -> None:
    generator = torch.Generator("tb").manual_seed(9)
    torch.rand(20, device="tb", generator=generator)
    offset = generator.get_offset()
    assert offset > 0
    clone = generator.clone_state()
    shared = generator.graphsafe_get_state()
    values = torch.rand(20, device="tb", generator=generator)
    assert clone.get_offset() == offset
    assert shared.get_offset() == generator.get_offset()
    assert bit_identical(values, torch.rand(20, device="tb", generator=clone))
    generator.set_offset(offset)
    assert bit_identical(values, torch.rand(20, device="tb", generator=generator))
    generator.graphsafe_set_state(clone)
    assert generator.get_offset() == clone.get_offset()


def test_seed_is_not_deterministic() -> None:
    generator = torch.Generator("tb")
    assert len({generator.seed() for _ in range(4)}) == 4
    assert generator.seed() == generator.initial_seed()
    torch.tb.seed()
    first = torch.tb.initial_seed()
    torch.tb.seed_all()
    assert torch.tb.initial_seed() != first


def test_a_cpu_generator_is_refused_for_tb_tensors() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)generator|device"):
        torch.rand(3, device="tb", generator=torch.Generator())


def test_fork_rng_restores_the_state() -> None:
    torch.manual_seed(0)
    with torch.random.fork_rng(device_type="tb"):
        inside = torch.rand(5, device="tb")
    assert bit_identical(inside, torch.rand(5, device="tb"))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint_replays_dropout(use_reentrant: bool) -> None:
    x = torch.ones(1000, device="tb", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(torch.nn.functional.dropout, x, 0.5, True, use_reentrant=use_reentrant)
    kept = y.detach() != 0
    y.sum().backward()
    assert bit_identical(x.grad != 0, kept)
    assert 300 < kept.sum().item() < 700
