"""Streams and events of any tb driver: the pool, events, and the current stream of a thread."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._core import Event, Stream, _connect, current_stream, default_stream, set_current_stream, synchronize

_connect()


@contextmanager
def stream(stream: Stream | None) -> Iterator[Stream | None]:
    """Make ``stream``, and its device, current in this thread inside the block; None changes nothing."""
    if stream is None:
        yield None
        return
    with stream:
        yield stream


__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "set_current_stream",
    "stream",
    "synchronize",
]
