from __future__ import annotations
__all__: list[str] = ['fallback_mode', 'fallbacks', 'initialize', 'native', 'reset_fallbacks', 'set_fallback_mode']
def _connect() -> None:
    ...
def fallback_mode() -> str:
    ...
def fallbacks() -> list[tuple[str, int, float]]:
    """
    (operator, calls, seconds) of every operator that ran on the CPU, most time first.
    """
def initialize() -> None:
    """
    Opens the driver and registers the kernels that fit it. Once; cheap after that.
    """
def native() -> bool:
    """
    True when the driver runs the native kernels, False when every operator goes through the fallback.
    """
def reset_fallbacks() -> None:
    """
    Empties the ledger.
    """
def set_fallback_mode(mode: str) -> None:
    """
    allow, warn (once per operator) or error.
    """
