from __future__ import annotations
import collections.abc
import typing
import typing_extensions
__all__: list[str] = ['DEFAULT_SEED', 'HostArray', 'NumpyBitGenerator', 'State', 'check_fill', 'current_device', 'default_state', 'dropout', 'fill', 'instruction_set', 'instruction_sets', 'multinomial', 'permutation', 'philox', 'seed_all', 'use_instruction_set', 'words_needed']
class State:
    """
    A seed and an offset that any number of threads may use.
    """
    def __init__(self, seed: int) -> None:
        ...
    def capture_begin(self) -> None:
        """
        Counts offsets from 0 until capture_end(). RuntimeError while a capture is in progress.
        """
    def capture_end(self) -> int:
        """
        Restores the state from before the capture; returns the number of words that one run takes.
        """
    def get(self) -> tuple[int, int]:
        """
        Seed and offset.
        """
    def is_capturing(self) -> bool:
        ...
    def reserve(self, words: int) -> tuple[int, int]:
        """
        Takes the next `words` 32-bit words; returns the seed and the offset where they start.
        """
    def set(self, seed: int, offset: int) -> None:
        ...
class HostArray:
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
class NumpyBitGenerator:
    """
    A stream of words behind NumPy's bitgen_t.
    """
    def __init__(self, seed: int) -> None:
        ...
    def capsule(self) -> typing_extensions.CapsuleType:
        """
        A capsule of NumPy's bitgen_t. Valid as long as this object lives.
        """
    def get(self) -> tuple[int, int, int]:
        """
        Seed, block, and position of the next word in the block.
        """
    def next_pair(self) -> int:
        """
        The next 64 bits.
        """
    def set(self, seed: int, block: int, position: int) -> None:
        ...
def _connect() -> None:
    """
    Imports tb-device's function table. ImportError if it is missing or does not match.
    """
def check_fill(kind: int, type: int, numbers: collections.abc.Sequence[float], from_: int, width: int) -> None:
    """
    Raises the ValueError that the fill would raise.
    """
def current_device() -> int:
    """
    This thread's current device; opens no driver.
    """
def default_state(device: int) -> State:
    """
    The state of a device's default generator.
    """
def dropout(source: HostArray, out: HostArray, mask: HostArray | None, seed: int, offset: int, keep: float, scale: float, threads: int) -> None:
    """
    out = source * mask * scale; mask: bernoulli(keep).
    """
def fill(out: HostArray, kind: int, numbers: collections.abc.Sequence[float], from_: int, width: int, seed: int, offset: int, start: int, threads: int) -> None:
    """
    Writes element number `start` and the following ones of a sequence. kind: TB_FILL_*.
    """
def instruction_set() -> str:
    """
    The instruction set in use.
    """
def instruction_sets() -> list[str]:
    """
    The instruction sets of this processor that fills can use, the fastest one last.
    """
def multinomial(out: HostArray, weights: HostArray, replacement: bool, seed: int, offset: int) -> None:
    """
    Fills int64 elements with classes drawn by their weights.
    """
def permutation(out: HostArray, seed: int, offset: int) -> None:
    """
    Fills int64 elements with 0 to count - 1 in random order.
    """
def philox(counter: collections.abc.Sequence[int], key: collections.abc.Sequence[int]) -> list[int]:
    """
    One block of Philox4x32-10.
    """
def seed_all(seed: int) -> None:
    """
    Seeds the devices' default generators, also those made later.
    """
def use_instruction_set(name: str) -> None:
    """
    Selects the instruction set of fills. What they write does not change.
    """
def words_needed(kind: int, type: int, count: int) -> int:
    """
    The number of 32-bit words that a fill takes from the sequence; 0 if there is no such fill.
    """
DEFAULT_SEED: int = 67280421310721
_tb_export: typing.Any
