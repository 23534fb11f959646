from __future__ import annotations
import collections.abc
import typing
import typing_extensions
__all__: list[str] = ['Bits', 'DEFAULT_SEED', 'State', 'Target', 'check_fill', 'current_device', 'default_state', 'dropout', 'elementary', 'exponentials', 'fill', 'instruction_set', 'instruction_sets', 'multinomial', 'permutation', 'philox', 'seed_all', 'ulp_bounds', 'use_instruction_set', 'words_needed']
class State:
    """
    A seed and an offset that any number of threads may use.
    """
    def __init__(self, seed: int) -> None:
        ...
    def capture_begin(self) -> None:
        """
        See tb/component.h.
        """
    def capture_end(self) -> int:
        """
        Words that one run takes.
        """
    def get(self) -> tuple[int, int]:
        """
        Seed and offset.
        """
    def is_capturing(self) -> bool:
        ...
    def reserve(self, words: int) -> tuple[int, int]:
        """
        Seed and offset of the next `words` 32-bit words, which nobody else gets.
        """
    def set(self, seed: int, offset: int) -> None:
        ...
class Target:
    """
    The elements of a buffer or DLPack tensor, in row-major order.
    """
    def __init__(self, object: typing.Any, type: int, writable: bool) -> None:
        ...
    @property
    def contiguous(self) -> bool:
        ...
    @property
    def count(self) -> int:
        ...
    @property
    def type(self) -> int:
        ...
class Bits:
    """
    A stream of words behind NumPy's bitgen_t.
    """
    def __init__(self, seed: int) -> None:
        ...
    def capsule(self) -> typing_extensions.CapsuleType:
        """
        Valid as long as this object lives.
        """
    def get(self) -> tuple[int, int, int]:
        """
        Seed, block and place in the block of the next word.
        """
    def next_pair(self) -> int:
        """
        The next 64 bits.
        """
    def set(self, seed: int, block: int, place: int) -> None:
        ...
def _connect() -> None:
    """
    Finds tb-device's function table. ImportError if it is missing or does not match.
    """
def check_fill(kind: int, type: int, numbers: collections.abc.Sequence[float], from_: int, width: int) -> None:
    """
    ValueError where the fill would be refused.
    """
def current_device() -> int:
    """
    This thread's current device; opens no driver.
    """
def default_state(device: int) -> State:
    """
    The state of a device's own generator.
    """
def dropout(source: Target, out: Target, mask: Target | None, seed: int, offset: int, keep: float, scale: float, threads: int) -> None:
    """
    out = source * mask * scale; mask: bernoulli(keep).
    """
def elementary(random: collections.abc.Sequence[int], wide: bool) -> list[tuple[float, float, float]]:
    """
    For tests: negative_log, cosine and sine of words (wide: of 64 bits), as elementary.h has them.
    """
def exponentials(numbers: collections.abc.Sequence[float], wide: bool) -> list[float]:
    """
    For tests: exponential of float64 numbers, or of float32 ones.
    """
def fill(out: Target, kind: int, numbers: collections.abc.Sequence[float], from_: int, width: int, seed: int, offset: int, start: int, threads: int) -> None:
    """
    Fills with the elements `start` and following of a sequence. kind: TB_FILL_*.
    """
def instruction_set() -> str:
    """
    The one in use.
    """
def instruction_sets() -> list[str]:
    """
    Those of this processor that fills can use, the best one last.
    """
def multinomial(out: Target, weights: Target, replacement: bool, seed: int, offset: int) -> None:
    """
    Fills int64 elements with classes.
    """
def permutation(out: Target, seed: int, offset: int) -> None:
    """
    Fills int64 elements with 0 to count - 1 in random order.
    """
def philox(counter: collections.abc.Sequence[int], key: collections.abc.Sequence[int]) -> list[int]:
    """
    One block of Philox4x32-10.
    """
def seed_all(seed: int) -> None:
    """
    Seeds the devices' own generators, also those made later.
    """
def ulp_bounds() -> tuple[float, float, float, float]:
    """
    Of the errors of negative_log, cosine, sine and exponential.
    """
def use_instruction_set(name: str) -> None:
    """
    Fills use it from now on; the bits are the same.
    """
def words_needed(kind: int, type: int, count: int) -> int:
    """
    32-bit words that a fill takes out of the sequence; 0 where there is no such fill.
    """
DEFAULT_SEED: int = 67280421310721
_tb_export: typing.Any
