"""Counter-based random numbers (Philox4x32-10): the same bits on every device, thread count and cut."""

from . import _core

_core._connect()

from .generator import (  # noqa: E402 (the generators need the connected extension)
    DEFAULT_SEED,
    Generator,
    default_generator,
    manual_seed,
    manual_seed_all,
    philox,
)

__all__ = ["DEFAULT_SEED", "Generator", "default_generator", "manual_seed", "manual_seed_all", "philox"]
