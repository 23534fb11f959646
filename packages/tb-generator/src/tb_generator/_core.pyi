from __future__ import annotations
import collections.abc
import typing
__all__: list[str] = ['DEFAULT_SEED', 'State', 'bernoulli', 'current_device', 'default_state', 'elementary', 'exponential', 'instruction_set', 'instruction_sets', 'integers', 'normal', 'philox', 'seed_all', 'ulp_bounds', 'uniform', 'use_instruction_set', 'words_needed']
class State:
    """
    A seed and an offset that any number of threads may use.
    """
    def __init__(self, seed: int) -> None:
        ...
    def get(self) -> tuple[int, int]:
        """
        Seed and offset.
        """
    def reserve(self, words: int) -> tuple[int, int]:
        """
        Seed and offset of the next `words` 32-bit words, which nobody else gets.
        """
    def set(self, seed: int, offset: int) -> None:
        ...
def _connect() -> None:
    """
    Finds tb-device's function table. ImportError if it is missing or does not match.
    """
def bernoulli(out: typing.Any, type: int, first: int, count: int, seed: int, offset: int, p: float, threads: int) -> None:
    """
    Fills elements `first` to `first` + `count` of a sequence: 1 with probability p.
    """
def current_device() -> int:
    """
    This thread's current device; opens no driver.
    """
def default_state(device: int) -> State:
    """
    The state of a device's own generator.
    """
def elementary(random: collections.abc.Sequence[int], wide: bool) -> list[tuple[float, float, float]]:
    """
    For tests: negative_log, cosine and sine of words (wide: of 53 bits), as elementary.h has them.
    """
def exponential(out: typing.Any, type: int, first: int, count: int, seed: int, offset: int, rate: float, threads: int) -> None:
    """
    Fills elements `first` to `first` + `count` of a sequence: with density rate * exp(-rate * x).
    """
def instruction_set() -> str:
    """
    The one in use.
    """
def instruction_sets() -> list[str]:
    """
    Those of this processor that fills can use, the best one last.
    """
def integers(out: typing.Any, type: int, first: int, count: int, seed: int, offset: int, low: int, width: int, threads: int) -> None:
    """
    Fills elements `first` to `first` + `count` of a sequence: `width` integers from `low` on; 0: 2**64.
    """
def normal(out: typing.Any, type: int, first: int, count: int, seed: int, offset: int, mean: float, std: float, threads: int) -> None:
    """
    Fills elements `first` to `first` + `count` of a sequence: of the normal distribution.
    """
def philox(counter: collections.abc.Sequence[int], key: collections.abc.Sequence[int]) -> list[int]:
    """
    One block of Philox4x32-10.
    """
def seed_all(seed: int) -> None:
    """
    Seeds the devices' own generators, also those made later.
    """
def ulp_bounds() -> tuple[float, float, float]:
    """
    Of the errors of negative_log, cosine and sine.
    """
def uniform(out: typing.Any, type: int, first: int, count: int, seed: int, offset: int, low: float, high: float, threads: int) -> None:
    """
    Fills elements `first` to `first` + `count` of a sequence: from low to high, high not included.
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
