"""Counter-based random numbers (Philox4x32-10), bit-identical on every device and with any number of threads."""

from typing import TYPE_CHECKING, Any

from . import _core

_core._connect()

from .generator import (
    DEFAULT_SEED,
    Generator,
    default_generator,
    fork_rng,
    instruction_sets,
    manual_seed,
    manual_seed_all,
    philox,
    use_instruction_set,
)

if TYPE_CHECKING:
    from .numpy_bit_generator import Philox

__all__ = [
    "DEFAULT_SEED",
    "Generator",
    "Philox",
    "default_generator",
    "fork_rng",
    "instruction_sets",
    "manual_seed",
    "manual_seed_all",
    "philox",
    "use_instruction_set",
]


def __getattr__(name: str) -> Any:
    """Imports Philox, which needs NumPy, at its first use."""
    if name == "Philox":
        from .numpy_bit_generator import Philox

        return Philox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
