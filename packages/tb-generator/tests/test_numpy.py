"""tb_generator.Philox as a bit generator of numpy.random.Generator."""

import pickle

import numpy
import pytest
import tb_generator
from tb_generator import _core


def test_numpy_draws_the_words_of_the_sequence() -> None:
    bits = tb_generator.Philox(7)
    assert isinstance(bits, numpy.random.BitGenerator)
    expected = tb_generator.Generator(7).integers(3000, -(2**63), 2**63).view("u8") - numpy.uint64(2**63)
    assert (bits.random_raw(3000) == expected).all()
    numbers = numpy.random.Generator(tb_generator.Philox(7)).random(3000)
    assert (numbers == (expected >> numpy.uint64(11)) * 2.0**-53).all()
    halves = numpy.random.Generator(tb_generator.Philox(7)).random(3001, dtype="f4")
    words = expected.view("u4")[:3001]
    assert (halves == (words >> numpy.uint32(8)) * numpy.float32(2.0**-24)).all()


@pytest.mark.parametrize("name", _core.instruction_sets())
def test_the_instruction_set_does_not_matter(name: str) -> None:
    expected = numpy.random.Generator(tb_generator.Philox(7)).normal(size=5000)
    tb_generator.use_instruction_set(name)
    try:
        assert (numpy.random.Generator(tb_generator.Philox(7)).normal(size=5000) == expected).all()
    finally:
        tb_generator.use_instruction_set(tb_generator.instruction_sets()[-1])


def test_state_advance_and_jumps() -> None:
    bits = tb_generator.Philox(7)
    bits.random_raw(1234)
    state = bits.state
    assert state["words"] == 2468
    expected = bits.random_raw(2000)
    bits.state = state
    assert (bits.random_raw(2000) == expected).all()
    assert (tb_generator.Philox(7).advance(1234).random_raw(2000) == expected).all()
    assert (tb_generator.Philox(7).advance(1240).advance(-6).random_raw(2000) == expected).all()
    assert tb_generator.Philox(7).jumped(2).state["words"] == 2**65
    assert (tb_generator.Philox(7).jumped().random_raw(4) != tb_generator.Philox(7).random_raw(4)).all()
    with pytest.raises(ValueError, match="not one of"):
        bits.state = numpy.random.Philox(1).state


def test_single_words_and_pairs_may_be_mixed_across_refills() -> None:
    one, other = (numpy.random.Generator(tb_generator.Philox(7)) for _ in range(2))
    for draws in range(700):
        one.random(dtype="f4")
        one.random()
        other.random(dtype="f4")
        state = other.bit_generator.state
        assert state["words"] == 4 * draws + 1
        other.bit_generator.state = state
        assert one.bit_generator.state["words"] == 4 * draws + 4
        other.random()
    assert one.random() == other.random()


def test_pickles_spawns_and_seeds() -> None:
    generator = numpy.random.Generator(tb_generator.Philox(numpy.random.SeedSequence(5)))
    generator.random(10)
    assert pickle.loads(pickle.dumps(generator)).random() == generator.random()
    first, second = generator.spawn(2)
    assert first.random() != second.random()
    assert tb_generator.Philox().random_raw() != tb_generator.Philox().random_raw()
    with pytest.raises(ValueError, match=r"0 to 2\*\*64 - 1"):
        tb_generator.Philox(2**64)
    for what in ("ctypes", "cffi"):
        with pytest.raises(NotImplementedError):
            getattr(tb_generator.Philox(1), what)


def test_a_generator_keeps_its_bit_generator_alive() -> None:
    generators = [numpy.random.Generator(tb_generator.Philox(seed)) for seed in range(50)]
    assert len({generator.random() for generator in generators}) == 50
