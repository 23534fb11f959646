"""The raw words of a sequence as a NumPy bit generator: numpy.random.Generator(tb_generator.Philox(seed))."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy
from numpy.random import BitGenerator, SeedSequence

from . import _core
from .generator import checked_seed


class Philox(BitGenerator):
    """Philox4x32-10 behind NumPy's interface: the words of tb_generator.Generator(seed), in their order.

    `seed` is 0 to 2**64 - 1, a SeedSequence, or None for a seed from the operating system's entropy. A draw of 64 bits
    is two words, the lower half first. Instruction sets do not change the numbers. ValueError: a seed out of range.
    Follows the interface of numpy.random.BitGenerator.
    """

    def __init__(self, seed: int | SeedSequence | None = None) -> None:
        sequence = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        super().__init__(sequence)
        if seed is None or isinstance(seed, SeedSequence):
            seed = int(sequence.generate_state(1, numpy.uint64)[0])
        self._bits = _core.NumpyBitGenerator(checked_seed(seed))
        self._capsule = self._bits.capsule()

    @property
    def capsule(self) -> Any:
        """The capsule of NumPy's bitgen_t, which numpy.random.Generator reads."""
        return self._capsule

    @property
    def state(self) -> Mapping[str, Any]:
        """The seed and the number of 32-bit words taken so far. Setting an earlier value goes back to it."""
        seed, block, position = self._bits.get()
        return {"bit_generator": "tb_generator.Philox", "seed": seed, "words": 4 * block + position}

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        if value.get("bit_generator") != "tb_generator.Philox":
            raise ValueError("the state is not one of tb_generator.Philox. Give what its `state` was")
        block, position = divmod(value["words"] % 2**66, 4)
        self._bits.set(checked_seed(value["seed"]), block, position)

    def advance(self, delta: int) -> Philox:
        """Advances by `delta` draws of 64 bits, or goes back if `delta` is negative; returns itself."""
        state = self.state
        self.state = {**state, "words": state["words"] + 2 * delta}
        return self

    def jumped(self, jumps: int = 1) -> Philox:
        """A new bit generator with the same seed, advanced by 2**63 draws for each jump."""
        other = Philox(self.state["seed"])
        other.state = self.state
        return other.advance(jumps * 2**63)

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """The next draw of 64 bits, or an array of draws of the given size (int or shape).

        output=False draws and returns None, as NumPy's own bit generators do for timing.
        """
        with self.lock:
            if size is None:
                drawn: Any = self._bits.next_pair()
            else:
                drawn = numpy.empty(size, numpy.uint64)
                for index in numpy.ndindex(drawn.shape):
                    drawn[index] = self._bits.next_pair()
        return drawn if output else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.state,)

    @property
    def ctypes(self) -> NoReturn:
        """Not offered: raises NotImplementedError."""
        raise NotImplementedError("tb_generator.Philox has no ctypes interface. Use numpy.random.Philox for it")

    @property
    def cffi(self) -> NoReturn:
        """Not offered: raises NotImplementedError."""
        raise NotImplementedError("tb_generator.Philox has no cffi interface. Use numpy.random.Philox for it")

    def _benchmark(self, cnt: int, method: str = "uint64") -> NoReturn:
        raise NotImplementedError("tb_generator.Philox has no benchmark. Time numpy.random.Generator's methods")


def _restored(state: Mapping[str, Any]) -> Philox:
    made = Philox(state["seed"])
    made.state = state
    return made
