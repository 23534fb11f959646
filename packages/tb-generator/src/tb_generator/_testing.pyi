"""
What only the tests of tb_generator call.
"""
from __future__ import annotations
import collections.abc
__all__: list[str] = ['elementary', 'exponentials', 'ulp_bounds']
def elementary(random: collections.abc.Sequence[int], wide: bool) -> list[tuple[float, float, float]]:
    """
    negative_log, cosine and sine of 32-bit words (wide: of 64-bit ones).
    """
def exponentials(numbers: collections.abc.Sequence[float], wide: bool) -> list[float]:
    """
    exp of float32 numbers (wide: of float64 ones).
    """
def ulp_bounds() -> tuple[float, float, float, float]:
    """
    The documented errors of negative_log, cosine, sine and exponential, in units in the last place.
    """
