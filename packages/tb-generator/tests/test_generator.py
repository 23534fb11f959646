"""Generators: state, default generators of devices, buffers and shapes, threads, fork."""

import array
import os
import subprocess
import sys
import threading

import numpy
import pytest
import tb_generator


def test_a_restored_state_repeats_the_numbers() -> None:
    generator = tb_generator.Generator(5)
    generator.normal(1001)
    state = generator.get_state()
    assert len(state) == 16
    expected = generator.uniform(100).tobytes()
    generator.manual_seed(9)
    generator.set_state(state)
    assert generator.uniform(100).tobytes() == expected
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        generator.set_state(b"abc")


def test_a_clone_goes_its_own_way_from_the_same_state() -> None:
    generator = tb_generator.Generator(5)
    generator.uniform(10)
    clone = generator.clone()
    assert (clone.seed, clone.offset) == (5, 3)
    assert clone.uniform(50).tobytes() == generator.uniform(50).tobytes()
    clone.uniform(10)
    assert clone.offset != generator.offset


def test_a_generator_has_the_seed_that_was_set() -> None:
    generator = tb_generator.Generator()
    assert generator.seed == tb_generator.DEFAULT_SEED == 67280421310721
    generator.uniform(8)
    assert generator.manual_seed(2**64 - 1) is generator
    assert (generator.seed, generator.offset) == (2**64 - 1, 0)
    assert generator.seed_from_entropy() == generator.seed != generator.seed_from_entropy()
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match=r"is not in 0 to 2\*\*64 - 1"):
            generator.manual_seed(wrong)


def test_each_device_has_its_own_generator_that_starts_with_the_default_seed() -> None:
    program = (
        "import tb_device, tb_generator as g\n"
        "first, third = g.default_generator(0), g.default_generator(2)\n"
        "assert first is g.default_generator(0) and first is not third\n"
        "assert first.seed == third.seed == g.DEFAULT_SEED\n"
        "first.uniform(8)\n"
        "assert (first.offset, third.offset) == (2, 0)\n"
        "g.manual_seed(3)\n"
        "assert (first.seed, first.offset, third.seed) == (3, 0, g.DEFAULT_SEED)\n"
        "g.manual_seed_all(4)\n"
        "assert first.seed == third.seed == g.default_generator(1).seed == 4\n"
        "try: g.default_generator(-1)\n"
        "except IndexError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the default generator of device -1 was asked for, but devices go from 0 to ")


def test_threads_that_share_a_generator_never_get_the_same_words() -> None:
    generator = tb_generator.Generator(1)
    taken: list[int] = []

    def take() -> None:
        mine = [generator.reserve(5)[1] for _ in range(2000)]
        taken.extend(mine)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(0, 16_000, 2)), "5 words take 2 blocks"


def test_buffers_are_filled_in_place_with_their_own_type() -> None:
    generator = tb_generator.Generator(1)
    numbers = array.array("d", bytes(80))
    assert generator.uniform(numbers) is numbers
    assert all(0 < number < 1 for number in numbers)
    raw = bytearray(12)
    generator.integers(raw, 5, 6, dtype="int32")
    assert bytes(raw) == b"\5\0\0\0" * 3
    matrix = numpy.zeros((3, 4), numpy.float16)
    assert generator.normal(matrix) is matrix
    assert matrix.all()
    flags = numpy.zeros(1000, numpy.bool_)
    generator.bernoulli(flags)
    assert 400 < flags.sum() < 600


def test_shapes_give_new_arrays() -> None:
    generator = tb_generator.Generator(1)
    assert generator.uniform((3, 5)).shape == (3, 5)
    assert generator.uniform(7).dtype == numpy.float32
    assert generator.integers([2], -5, 5).dtype == numpy.int64
    assert generator.bernoulli(2).dtype == numpy.bool_
    assert generator.normal(2, dtype="bfloat16").dtype == numpy.uint16
    assert generator.uniform(()).shape == ()
    assert generator.uniform((4, 0)).shape == (4, 0)


def test_without_numpy_a_shape_gives_a_memoryview_with_the_same_numbers() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import tb_generator\n"
        "view = tb_generator.Generator(1).uniform((3, 5))\n"
        "assert isinstance(view, memoryview) and view.shape == (3, 5) and view.format == 'f'\n"
        "assert len(tb_generator.Generator(1).uniform(0)) == 0\n"
        "assert tb_generator.Generator(1).normal((2, 3), dtype='float16').nbytes == 12\n"
        "print(view.tobytes().hex())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == tb_generator.Generator(1).uniform((3, 5)).tobytes().hex()


def test_forks_are_repeatable_and_independent() -> None:
    first, second = (tb_generator.Generator(5) for _ in range(2))
    ours, theirs = first.fork(3), second.fork(3)
    assert [one.seed for one in ours] == [one.seed for one in theirs]
    assert len({one.seed for one in [*ours, *first.fork(2)]}) == 5
    assert {one.offset for one in ours} == {0}
    assert second.uniform(100).tobytes() != ours[0].uniform(100).tobytes()
    with pytest.raises(ValueError, match="-1 generators"):
        first.fork(-1)


def test_preserved_states_come_back_also_after_errors() -> None:
    generator = tb_generator.Generator(5)
    with generator.preserved() as same:
        inside = same.uniform(100).tobytes()
    assert generator.uniform(100).tobytes() == inside
    offset = generator.offset
    with pytest.raises(ValueError, match="std"), generator.preserved():
        generator.uniform(100).sum() + generator.normal(5, std=-1)
    assert generator.offset == offset
    own = tb_generator.default_generator(0)
    before = own.get_state()
    with tb_generator.fork_rng():
        own.manual_seed(77)
        own.uniform(10)
    assert own.get_state() == before


def test_a_captured_fill_repeats_the_sequence_that_eager_fills_give() -> None:
    eager, captured = (tb_generator.Generator(5) for _ in range(2))
    captured.uniform(40)
    eager.uniform(40)
    captured.capture_begin()
    assert captured.is_capturing
    relative = [captured.reserve(words)[1] for words in (40, 60)]
    assert relative == [0, 10]
    words = captured.capture_end()
    assert (words, captured.offset, captured.is_capturing) == (100, 10, False), "the sequence stood still"
    for _ in range(3):
        seed, start = captured.reserve(words)
        assert seed == 5
        replayed = [start + offset for offset in relative]
        assert replayed == [eager.reserve(40)[1], eager.reserve(60)[1]]
    captured.capture_begin()
    with pytest.raises(RuntimeError, match="capture_begin on a generator that is being captured"):
        captured.capture_begin()
    assert captured.capture_end() == 0
    with pytest.raises(RuntimeError, match="capture_end on a generator that is not being captured"):
        captured.capture_end()


def test_a_large_fill_uses_threads_and_keeps_its_bits() -> None:
    by_default = tb_generator.Generator(1).uniform(1_100_003)
    on_one = tb_generator.Generator(1).uniform(1_100_003, threads=1)
    assert by_default.tobytes() == on_one.tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_goes_on_from_the_parents_state_while_another_thread_reserves() -> None:
    program = (
        "import os, threading, tb_generator\n"
        "shared, own = tb_generator.Generator(1), tb_generator.default_generator(0)\n"
        "own.uniform(8)\n"
        "stop = threading.Event()\n"
        "def busy():\n"
        "    while not stop.is_set(): shared.reserve(4)\n"
        "thread = threading.Thread(target=busy); thread.start()\n"
        "for _ in range(100):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        shared.reserve(4)\n"
        "        os._exit(0 if tb_generator.default_generator(0).offset == 2 else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "stop.set(); thread.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_missing_tb_device_is_named_with_the_remedy() -> None:
    program = "import sys; sys.modules['tb_device._core'] = sys.modules['tb_device'] = None; import tb_generator"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: tb-generator needs tb-device, which is not installed: pip install tb-device" in done.stderr
