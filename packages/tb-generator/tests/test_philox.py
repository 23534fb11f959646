"""The block function against Random123's published known answers, and the words of fills against it."""

import struct

import pytest
import tb_generator
from tb_generator import _core

# kat_vectors of Random123, philox4x32 with 10 rounds: counter, key, answer.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    assert tb_generator.philox(words(counter), words(key)) == words(answer)


@pytest.mark.parametrize("code", _core.instruction_sets())
@pytest.mark.parametrize("offset", [0, 1, 2**32 - 3, 2**32 - 17, 2**32 - 100, 2**40, 2**64 - 2])
def test_word_w_of_a_fill_is_word_w_modulo_4_of_block_offset_plus_w_over_4(code: str, offset: int) -> None:
    seed = 0x123456789ABCDEF0
    out = bytearray(4 * 1000)
    _core.use_instruction_set(code)
    try:
        _core.fill(_core.HostArray(out, 6, True), 3, [0.0] * 4, -(2**31), 2**32, seed, offset, 0, 1)
    finally:
        _core.use_instruction_set(_core.instruction_sets()[-1])
    expected: list[int] = []
    for block in range(250):
        counter = (offset + block) % 2**64
        expected += tb_generator.philox((counter % 2**32, counter >> 32, 0, 0), (seed % 2**32, seed >> 32))
    assert [value + 2**31 for value in struct.unpack("<1000i", out)] == expected


def test_philox_needs_four_words_and_two_words() -> None:
    with pytest.raises(TypeError):
        tb_generator.philox((0, 0, 0), (0, 0))
    with pytest.raises(TypeError):
        tb_generator.philox((0, 0, 0, 2**32), (0, 0))
