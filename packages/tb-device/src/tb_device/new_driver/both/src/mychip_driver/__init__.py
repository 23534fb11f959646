"""Where the driver of mychip is; tb-device asks through the entry point `mychip` of the group tb_device.drivers.

tb-device imports this module while it looks for drivers: import no extension here, and touch no hardware.
"""

from pathlib import Path


def library() -> str:
    """The path of the driver's library."""
    return str(Path(__file__).parent / "libmychip.so")


def score() -> float:
    """Among installed drivers the highest score is tried first. The built-in cpu comes after all of them."""
    return 1.0
