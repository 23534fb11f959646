"""Generators as Python sees them: a state, and fills that take their words out of it."""

import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from .buffers import Target, target

DEFAULT_SEED: int = _core.DEFAULT_SEED
"""What generators start with unless told otherwise; PyTorch's own."""

UNIFORM, NORMAL, INTEGERS, BERNOULLI, EXPONENTIAL = 1, 2, 3, 4, 5  # TB_FILL_* of tb/component.h
THREADED = 1_000_000  # elements from which more than one thread pays for being started
STATE = struct.Struct("<QQ")


class Generator:
    """A sequence of random words, named by a seed, and an offset: how many blocks of 4 words have been taken.

    A fill takes the words it needs and moves the offset on, atomically: threads that share a generator get different
    numbers. What a fill writes depends on seed and offset alone, on every machine: logarithm, sine and cosine are our
    own, built of IEEE operations.

    The fills' first argument is a writable contiguous buffer, filled in place and returned, or a shape or number of
    elements, for which a new array is returned: NumPy's if numpy is installed, else a memoryview. `dtype` is float32,
    float64, float16, bfloat16, int64, int32, int16, int8, uint8 or bool; None takes the buffer's own, or the default
    named at the fill. bfloat16 elements are kept as their bits, in unsigned 16-bit integers. `threads` is how many
    threads may be used: None means all of the processor's from a million elements on. The numbers do not depend on it.
    The fills raise ValueError for arguments outside their domain, TypeError for an `out` that is no buffer or shape.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Starts at offset 0 of the sequence of `seed` (0 to 2**64 - 1; None: DEFAULT_SEED)."""
        self._state = _core.State(DEFAULT_SEED if seed is None else checked_seed(seed))

    @property
    def seed(self) -> int:
        """What the sequence was seeded with."""
        return self._state.get()[0]

    @property
    def offset(self) -> int:
        """Blocks of 4 words that have been taken."""
        return self._state.get()[1]

    def manual_seed(self, seed: int) -> "Generator":
        """Goes to the beginning of the sequence of `seed`; ValueError outside 0 to 2**64 - 1."""
        self._state.set(checked_seed(seed), 0)
        return self

    def seed_from_entropy(self) -> int:
        """Goes to the beginning of a sequence that the operating system's entropy chooses; returns its seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._state.set(seed, 0)
        return seed

    def get_state(self) -> bytes:
        """Seed and offset: 16 bytes, little-endian."""
        return STATE.pack(*self._state.get())

    def set_state(self, state: bytes) -> None:
        """Goes to where get_state() was called; ValueError if `state` does not have 16 bytes."""
        if len(state) != STATE.size:
            raise ValueError(f"a state has {STATE.size} bytes, not {len(state)}. Give what get_state() returned")
        self._state.set(*STATE.unpack(state))

    def clone(self) -> "Generator":
        """Another generator, independent from now on, in the same state."""
        copy = Generator()
        copy._state.set(*self._state.get())
        return copy

    def reserve(self, words: int) -> tuple[int, int]:
        """Takes `words` 32-bit words, rounded up to blocks of 4: seed and offset where they start."""
        return self._state.reserve(words)

    def __repr__(self) -> str:
        seed, offset = self._state.get()
        return f"tb_generator.Generator(seed={seed}, offset={offset})"

    def uniform(
        self, out: Any, low: float = 0.0, high: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements, low <= x < high also after rounding to the type. Default dtype: float32."""
        return self._fill(UNIFORM, _core.uniform, target(out, dtype, "float32"), (low, high), threads)

    def normal(
        self, out: Any, mean: float = 0.0, std: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements of the normal distribution, std >= 0. Default dtype: float32."""
        return self._fill(NORMAL, _core.normal, target(out, dtype, "float32"), (mean, std), threads)

    def integers(self, out: Any, low: int, high: int, dtype: str | None = None, threads: int | None = None) -> Any:
        """Integers, low <= x < high, all equally probable. Default dtype: int64.

        low and high - 1 must be values of the type; of int64 for floating types, which round inside the interval.
        """
        if not -(2**63) <= low < high <= 2**63:
            raise ValueError(f"integers from {low} to {high}: give -2**63 <= low < high <= 2**63")
        width = (high - low) % 2**64  # 0 stands for 2**64
        return self._fill(INTEGERS, _core.integers, target(out, dtype, "int64"), (low, width), threads)

    def bernoulli(self, out: Any, p: float = 0.5, dtype: str | None = None, threads: int | None = None) -> Any:
        """1 with probability p, rounded to a multiple of 2**-32, else 0. Default dtype: bool."""
        return self._fill(BERNOULLI, _core.bernoulli, target(out, dtype, "bool"), (p,), threads)

    def exponential(self, out: Any, rate: float = 1.0, dtype: str | None = None, threads: int | None = None) -> Any:
        """Floating elements > 0 with density rate * exp(-rate * x), rate > 0. Default dtype: float32."""
        return self._fill(EXPONENTIAL, _core.exponential, target(out, dtype, "float32"), (rate,), threads)

    def _fill(
        self, kind: int, fill: Callable[..., None], target: Target, arguments: tuple[float, ...], threads: int | None
    ) -> Any:
        if threads is None:
            threads = processors() if target.elements >= THREADED else 1
        elif threads < 1:
            raise ValueError(f"threads is {threads}: give at least 1, or None")
        number = target.element.number
        # A fill that would be refused must not move the offset: ask with no elements first.
        fill(target.view, number, 0, 0, 0, 0, *arguments, 1)
        seed, offset = self._state.reserve(_core.words_needed(kind, number, target.elements))
        fill(target.view, number, 0, target.elements, seed, offset, *arguments, threads)
        return target.result


def checked_seed(seed: int) -> int:
    """`seed`, or ValueError."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed {seed} is not in 0 to 2**64 - 1. Take it modulo 2**64")
    return seed


def processors() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_default_generators: dict[int, Generator] = {}


def default_generator(device: int = 0) -> Generator:
    """The device's own generator, the same object at every call. Opens no driver.

    It starts with DEFAULT_SEED. A forked child has a copy in the parent's state. IndexError for a device that the open
    driver does not have.
    """
    state = _core.default_state(device)
    if device not in _default_generators:
        generator = Generator()
        generator._state = state
        _default_generators.setdefault(device, generator)
    return _default_generators[device]


def manual_seed(seed: int) -> Generator:
    """Seeds the current device's own generator and returns it; ValueError outside 0 to 2**64 - 1."""
    return default_generator(_core.current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds every device's own generator, also those not yet used; ValueError outside 0 to 2**64 - 1."""
    _core.seed_all(checked_seed(seed))


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """One block of Philox4x32-10: four 32-bit words from a counter of four and a key of two.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    first, second, third, fourth = _core.philox(list(counter), list(key))
    return first, second, third, fourth
