"""Generators: a state, and fills that take their words from it."""

import array
import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import _core
from .host_arrays import ELEMENT_TYPES, array_for, new_array

DEFAULT_SEED: int = _core.DEFAULT_SEED
"""The seed that generators start with by default; it is PyTorch's."""

# TB_FILL_* of tb/component.h
UNIFORM, NORMAL, INTEGERS, BERNOULLI, EXPONENTIAL, CAUCHY, LOG_NORMAL, GEOMETRIC, TRUNCATED_NORMAL = range(1, 10)
THREADED = 1_000_000  # from this number of elements on, more than one thread is faster
STATE = struct.Struct("<QQ")


class Generator:
    """A sequence of random words, named by a seed, and an offset: the number of blocks of 4 words taken so far.

    A fill takes the words that it needs and advances the offset, atomically: threads that share a generator get
    different numbers. What a fill writes depends on seed and offset alone, on every machine: the package has its own
    logarithm, sine and cosine, which use IEEE operations only.

    The first argument of a fill is the memory that it fills and returns: a writable buffer or a DLPack tensor on the
    host, of any strides, whose elements are numbered in row-major order. Or it is a shape or number of elements, for
    which a new array is returned: NumPy's if numpy is installed, else a memoryview. `dtype` is float32, float64,
    float16, bfloat16, int64, int32, int16, int8, uint8 or bool; None means the memory's own type, or the fill's
    default. If the memory's type cannot be bfloat16, the bits are stored in unsigned 16-bit integers. `threads` is the
    largest number of threads; None means all of the processor's from a million elements on. The numbers do not depend
    on it. The fills raise ValueError for arguments outside their domain, and TypeError for an `out` that is neither
    memory nor a shape.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Starts at offset 0 of the sequence of `seed` (0 to 2**64 - 1; None: DEFAULT_SEED)."""
        self._state = _core.State(DEFAULT_SEED if seed is None else checked_seed(seed))

    @property
    def seed(self) -> int:
        """The seed of the sequence."""
        return self._state.get()[0]

    @property
    def offset(self) -> int:
        """The number of blocks of 4 words taken so far."""
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
        """Restores what get_state() returned; ValueError if `state` does not have 16 bytes."""
        if len(state) != STATE.size:
            raise ValueError(f"a state has {STATE.size} bytes, not {len(state)}. Give what get_state() returned")
        self._state.set(*STATE.unpack(state))

    def clone(self) -> "Generator":
        """A new generator in the same state."""
        copy = Generator()
        copy._state.set(*self._state.get())
        return copy

    def reserve(self, words: int) -> tuple[int, int]:
        """Takes `words` 32-bit words, rounded up to blocks of 4; returns the seed and the offset where they start."""
        return self._state.reserve(words)

    def __repr__(self) -> str:
        seed, offset = self._state.get()
        return f"tb_generator.Generator(seed={seed}, offset={offset})"

    def fork(self, count: int = 1) -> "list[Generator]":
        """`count` new generators, independent of this one and of each other.

        Each seed is the next 64 bits of this sequence, so the same state gives the same generators. ValueError: a
        negative count.
        """
        if count < 0:
            raise ValueError(f"fork into {count} generators: give 0 or more")
        seed, offset = self._state.reserve(4 * count)
        key = (seed % 2**32, seed >> 32)
        children = []
        for block in range(count):
            counter = (offset + block) % 2**64
            # The fourth word of the counter is 1, so that these blocks differ from all that fills read.
            low, high, _, _ = philox((counter % 2**32, counter >> 32, 0, 1), key)
            children.append(Generator(high << 32 | low))
        return children

    @contextlib.contextmanager
    def preserved(self) -> "Iterator[Generator]":
        """Context manager that restores the state at the end of the block."""
        state = self.get_state()
        try:
            yield self
        finally:
            self.set_state(state)

    def capture_begin(self) -> None:
        """Begins a capture: until capture_end() offsets count from 0, and the sequence itself does not advance.

        RuntimeError while a capture is in progress.
        """
        self._state.capture_begin()

    def capture_end(self) -> int:
        """Ends the capture; returns the number of 32-bit words that one run of the captured work takes.

        Before each replay, `reserve` that many words; the captured fills add the offset that it returns to theirs.
        RuntimeError if no capture is in progress.
        """
        return self._state.capture_end()

    @property
    def is_capturing(self) -> bool:
        """Whether a capture is in progress."""
        return self._state.is_capturing()

    def uniform(
        self, out: Any, low: float = 0.0, high: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements with low <= x < high, also after rounding to the type. Default dtype: float32."""
        return self._fill(UNIFORM, out, dtype, "float32", threads, (low, high))

    def normal(
        self, out: Any, mean: float = 0.0, std: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements of the normal distribution, std >= 0. Default dtype: float32."""
        return self._fill(NORMAL, out, dtype, "float32", threads, (mean, std))

    def truncated_normal(
        self,
        out: Any,
        mean: float = 0.0,
        std: float = 1.0,
        low: float = -2.0,
        high: float = 2.0,
        dtype: str | None = None,
        threads: int | None = None,
    ) -> Any:
        """Floating elements of the normal distribution given that low <= x <= high, std > 0. Default dtype: float32."""
        return self._fill(TRUNCATED_NORMAL, out, dtype, "float32", threads, (mean, std, low, high))

    def log_normal(
        self, out: Any, mean: float = 0.0, std: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements whose logarithms have the normal distribution, std >= 0. Default dtype: float32."""
        return self._fill(LOG_NORMAL, out, dtype, "float32", threads, (mean, std))

    def cauchy(
        self, out: Any, median: float = 0.0, sigma: float = 1.0, dtype: str | None = None, threads: int | None = None
    ) -> Any:
        """Floating elements of the Cauchy distribution, half as wide as sigma > 0 at half height. Default: float32."""
        return self._fill(CAUCHY, out, dtype, "float32", threads, (median, sigma))

    def exponential(self, out: Any, rate: float = 1.0, dtype: str | None = None, threads: int | None = None) -> Any:
        """Floating elements > 0 with density rate * exp(-rate * x), rate > 0. Default dtype: float32."""
        return self._fill(EXPONENTIAL, out, dtype, "float32", threads, (rate,))

    def geometric(self, out: Any, p: float, dtype: str | None = None, threads: int | None = None) -> Any:
        """Trials until the first success, 0 < p <= 1; at most the type's highest value. Default: int64."""
        return self._fill(GEOMETRIC, out, dtype, "int64", threads, (p,))

    def integers(self, out: Any, low: int, high: int, dtype: str | None = None, threads: int | None = None) -> Any:
        """Equally probable integers with low <= x < high. Default dtype: int64.

        low and high - 1 must be values of the type. For floating types they must be values of int64; the elements are
        rounded inside the interval.
        """
        if not -(2**63) <= low < high <= 2**63:
            raise ValueError(f"integers from {low} to {high}: give -2**63 <= low < high <= 2**63")
        width = (high - low) % 2**64  # 0 means 2**64
        return self._fill(INTEGERS, out, dtype, "int64", threads, low=low, width=width)

    def bernoulli(self, out: Any, p: float = 0.5, dtype: str | None = None, threads: int | None = None) -> Any:
        """1 with probability p, rounded to a multiple of 2**-32, else 0. Default dtype: bool."""
        return self._fill(BERNOULLI, out, dtype, "bool", threads, (p,))

    def dropout(
        self, source: Any, p: float = 0.5, out: Any = None, mask: Any = None, threads: int | None = None
    ) -> Any:
        """Copies `source`, zeroes each element with probability p and multiplies the others by 1 / (1 - p).

        source: contiguous floating elements. out: memory of the same size and type, which may be `source`; None makes a
        new array of its shape. mask: None, or contiguous bool memory of the same size, which gets True where an element
        is kept. ValueError: p outside 0 to 1, or memory that differs in size or type.
        """
        if not 0 <= p <= 1:
            raise ValueError(f"dropout with p = {p}: give a probability, 0 <= p <= 1")
        read = _core.HostArray(source, 0, False)
        if out is None:
            shape = tuple(source.shape) if hasattr(source, "shape") else (read.count,)
            out, write = new_array(shape, next(n for n, (number, _) in ELEMENT_TYPES.items() if number == read.type))
        else:
            write = _core.HostArray(out, 0, True)
        kept = None if mask is None else _core.HostArray(mask, 0, True)
        keep, scale = 1 - p, 0.0 if p == 1 else 1 / (1 - p)
        count = write.count
        threads = threads_for(count, threads)
        with self._reserved(_core.words_needed(BERNOULLI, ELEMENT_TYPES["bool"][0], count)) as (seed, offset):
            _core.dropout(read, write, kept, seed, offset, keep, scale, threads)
        return out

    def permutation(self, count: int) -> Any:
        """A new int64 array of 0 to count - 1 in random order; ValueError for a negative count."""
        result, memory = new_array(one_axis(count), "int64")
        with self._reserved(2 * count) as (seed, offset):
            _core.permutation(memory, seed, offset)
        return result

    def multinomial(self, weights: Any, samples: int, replacement: bool = True) -> Any:
        """A new int64 array of `samples` indices into `weights`, with probabilities in proportion to the weights.

        weights: contiguous float64 memory or a sequence of numbers; finite, at least 0, not all 0. Without replacement
        no index occurs twice, and there may not be more samples than weights above 0. ValueError otherwise.
        """
        if isinstance(weights, tuple | list):
            weights = array.array("d", weights)
        source = _core.HostArray(weights, ELEMENT_TYPES["float64"][0], False)
        if not source.contiguous:
            raise ValueError("multinomial: the weights are not contiguous. Give a copy")
        result, memory = new_array(one_axis(samples), "int64")
        with self._reserved(2 * (samples if replacement else source.count)) as (seed, offset):
            _core.multinomial(memory, source, replacement, seed, offset)
        return result

    def _fill(
        self,
        kind: int,
        out: Any,
        dtype: str | None,
        default: str,
        threads: int | None,
        numbers: tuple[float, ...] = (),
        low: int = 0,
        width: int = 0,
    ) -> Any:
        result, memory = array_for(out, dtype, default)
        threads = threads_for(memory.count, threads)
        four = [*map(float, numbers), 0.0, 0.0, 0.0, 0.0][:4]
        # A fill that raises must not advance the offset.
        _core.check_fill(kind, memory.type, four, low, width)
        seed, offset = self._state.reserve(_core.words_needed(kind, memory.type, memory.count))
        _core.fill(memory, kind, four, low, width, seed, offset, 0, threads)
        return result

    @contextlib.contextmanager
    def _reserved(self, words: int) -> "Iterator[tuple[int, int]]":
        """Reserves words for the block; if it raises ValueError, returns them unless another thread reserved since."""
        seed, offset = self._state.reserve(words)
        after = self._state.get()
        try:
            yield seed, offset
        except ValueError:
            if self._state.get() == after:
                self._state.set(seed, offset)
            raise


def checked_seed(seed: int) -> int:
    """Returns `seed`; ValueError outside 0 to 2**64 - 1."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed {seed} is not in 0 to 2**64 - 1. Take it modulo 2**64")
    return seed


def one_axis(count: int) -> tuple[int]:
    """The shape of `count` elements; ValueError for a negative count."""
    if count < 0:
        raise ValueError(f"{count} elements were asked for: give 0 or more")
    return (count,)


def threads_for(count: int, threads: int | None) -> int:
    """The number of threads for `count` elements; ValueError if `threads` is less than 1."""
    if threads is None:
        return processors() if count >= THREADED else 1
    if threads < 1:
        raise ValueError(f"threads is {threads}: give at least 1, or None")
    return threads


def processors() -> int:
    """The number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_default_generators: dict[int, Generator] = {}


def default_generator(device: int = 0) -> Generator:
    """The default generator of a device, the same object at every call. Opens no driver.

    It starts with DEFAULT_SEED. A forked child has a copy in the parent's state. IndexError: the open driver has no
    such device.
    """
    state = _core.default_state(device)
    if device not in _default_generators:
        generator = Generator()
        generator._state = state
        _default_generators.setdefault(device, generator)
    return _default_generators[device]


def manual_seed(seed: int) -> Generator:
    """Seeds the current device's default generator and returns it; ValueError outside 0 to 2**64 - 1."""
    return default_generator(_core.current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds every device's default generator, also those not yet used; ValueError outside 0 to 2**64 - 1."""
    _core.seed_all(checked_seed(seed))


@contextlib.contextmanager
def fork_rng(devices: Iterable[int] | None = None) -> Iterator[None]:
    """Context manager that restores the states of default generators at the end of the block.

    devices: numbers of devices; None means the current one. Follows torch.random.fork_rng. IndexError: there is no such
    device.
    """
    generators = [default_generator(device) for device in ([_core.current_device()] if devices is None else devices)]
    with contextlib.ExitStack() as stack:
        for generator in generators:
            stack.enter_context(generator.preserved())
        yield


def instruction_sets() -> list[str]:
    """This processor's instruction sets that fills can use, the fastest last: portable (ARM: neon), avx2, avx512."""
    return _core.instruction_sets()


def use_instruction_set(name: str) -> None:
    """Selects the instruction set of all fills, as TB_GENERATOR_INSTRUCTIONS does at the start of a process.

    What fills write does not change. ValueError: this processor lacks the instruction set.
    """
    _core.use_instruction_set(name)


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """One block of Philox4x32-10: four 32-bit words from a counter of four and a key of two.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    first, second, third, fourth = _core.philox(list(counter), list(key))
    return first, second, third, fourth
