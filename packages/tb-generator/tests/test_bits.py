"""The results of fills depend on seed, offset and index alone, and are bit-identical on every machine."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import tb_generator
from fills import ARGUMENTS, CASES, KINDS, SEED, SETS, fill
from tb_generator import _core
from tb_generator.host_arrays import ELEMENT_TYPES

GROUPED = ("normal", "log_normal")
GROUP = 32  # elements in a group of these kinds


@pytest.fixture(params=SETS)
def code(request: pytest.FixtureRequest) -> Iterator[str]:
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(SETS[-1])


def test_these_tests_draw_from_every_distribution() -> None:
    beyond = len(ARGUMENTS) + 1
    assert _core.words_needed(beyond, ELEMENT_TYPES["float32"][0], 1) == 0, f"fills.py lacks TB_FILL_* number {beyond}"


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_do_not_depend_on_how_a_range_is_cut(kind: str, dtype: str, code: str) -> None:
    size = len(fill(kind, dtype, 1))
    whole = fill(kind, dtype, 3001)
    for cuts in ([1, 2, 3, 4, 5, 6, 7, 1023], [256, 257, 512, 513, 2047], [64, 1500], [2999, 3000]):
        parts = [fill(kind, dtype, end - start, start) for start, end in zip([0, *cuts], [*cuts, 3001], strict=True)]
        assert b"".join(parts) == whole
    assert fill(kind, dtype, 1, 3000) == whole[-size:]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_do_not_depend_on_the_number_of_threads(kind: str, dtype: str) -> None:
    one = fill(kind, dtype, 50_001)
    assert one != bytes(len(one))
    for threads in (2, 3, 7, 64):
        assert fill(kind, dtype, 50_001, threads=threads) == one


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_every_instruction_set_gives_bit_identical_results(kind: str, dtype: str) -> None:
    written = {}
    try:
        for name in SETS:
            _core.use_instruction_set(name)
            written[name] = fill(kind, dtype, 20_003)
    finally:
        _core.use_instruction_set(SETS[-1])
    assert set(written.values()) == {written["portable"]}


@pytest.mark.parametrize("kind", GROUPED)
@pytest.mark.parametrize("offset", [2**32 - 5_000, 2**32 - 33, 2**32 - 1, 2**33 + 7])
def test_normal_numbers_go_on_where_a_word_of_the_counter_overflows(kind: str, offset: int, code: str) -> None:
    def drawn(first: int, count: int) -> bytes:
        out = np.empty(count, np.float32)
        target = _core.HostArray(out, ELEMENT_TYPES["float32"][0], True)
        _core.fill(target, KINDS[kind], [1.0, 2.0, 0.0, 0.0], 0, 0, SEED, offset, first, 1)
        return out.tobytes()

    # Pieces of one group each take no fast path. Together they must equal one fill of everything.
    assert drawn(0, 30_016) == b"".join(drawn(first, GROUP) for first in range(0, 30_016, GROUP))


# SHA-256 of 10,007 elements from element 5 on. All machines, compilers and releases must reproduce it.
GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden.json").read_text())


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_are_equal_on_every_machine(kind: str, dtype: str) -> None:
    assert hashlib.sha256(fill(kind, dtype, 10_007, first=5)).hexdigest()[:16] == GOLDEN.get(f"{kind} {dtype}")


def test_the_environment_chooses_the_instruction_set() -> None:
    program = "from tb_generator import _core; print(_core.instruction_set())"
    for name in [*SETS, "none such"]:
        environment = {**os.environ, "TB_GENERATOR_INSTRUCTIONS": name}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == (name if name in SETS else SETS[-1]), done.stderr
    with pytest.raises(ValueError, match="no instruction set 'mmx' on this processor"):
        _core.use_instruction_set("mmx")


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_successive_fills_do_not_share_words(kind: str, dtype: str) -> None:
    size, number = len(fill(kind, dtype, 1)), ELEMENT_TYPES[dtype][0]
    step = GROUP if kind in GROUPED else 4
    blocks = _core.words_needed(KINDS[kind], number, step) // 4  # blocks that `step` elements take
    whole, first, second = (bytearray(count * size) for count in (100, 10, 7))
    getattr(tb_generator.Generator(SEED), kind)(whole, *ARGUMENTS[kind], dtype=dtype)
    generator = tb_generator.Generator(SEED)
    getattr(generator, kind)(first, *ARGUMENTS[kind], dtype=dtype)
    taken = generator.offset
    assert taken == -(-_core.words_needed(KINDS[kind], number, 10) // 4)
    getattr(generator, kind)(second, *ARGUMENTS[kind], dtype=dtype)
    assert first == whole[: 10 * size]
    narrow = kind == "integers" and dtype in ("int64", *("float32", "float64", "float16", "bfloat16"))
    start = taken * (4 if narrow else step // blocks if blocks else 0) * size
    assert second == whole[start : start + 7 * size]


@pytest.mark.parametrize("high", [1_000, 3_000_000_001])  # rejects hardly a word; rejects some in every chunk
@pytest.mark.parametrize("count", [1_003, 2_200_003])  # above 16 MiB, fills bypass the caches
def test_integers_of_64_bits_are_the_same_in_every_instruction_set(count: int, high: int) -> None:
    memory = np.empty(count + 8, np.int64)
    written = []
    try:
        for name in SETS:
            _core.use_instruction_set(name)
            for start in (0, 3):  # another alignment to cache lines
                out = memory[start : start + count]
                tb_generator.Generator(1).integers(out, -5, high, threads=1)
                written.append(out.copy())
    finally:
        _core.use_instruction_set(SETS[-1])
    assert all(np.array_equal(out, written[0]) for out in written)
    assert -5 <= written[0].min() < written[0].max() < high
