"""
Process groups of tb devices. Use torch.distributed instead.
"""
from __future__ import annotations
__all__: list[str] = list()
def _connect() -> None:
    """
    Imports the other components' function tables. ImportError: one is missing or does not match.
    """
def _end(milliseconds: int) -> None:
    """
    Waits for the pending calls of all groups, and gives up those that are not done in time.
    """
def _record_call_sites(offsets: tuple[int, int, int, int, int]) -> None:
    """
    Lets failures name the line of the call. `offsets`: what tb_ops._frames.find() returns.
    """
def _wait_on_host(on_host: bool) -> None:
    """
    Whether Work.wait() blocks the calling thread, and raises the call's failure, instead of the current stream.
    """
